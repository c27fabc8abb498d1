"""Click in the language of the person: the help of commands, and what Click itself says."""

from __future__ import annotations

import copy
import importlib
from typing import TypeVar

import click

from retoma.cli.language import ENGLISH, language, words

C = TypeVar("C", bound=click.Command)

MODULES = ("core", "decorators", "exceptions", "formatting", "parser", "termui", "types")
"""Those of Click that say something to people. Each takes its sentences from gettext, under these two names."""


_NAMES = ("file", "directory", "path")
"""What Click looks up when a parameter is made. Parameters are made in English, and copied in other languages."""


def teach() -> None:
    """Let Click look up its own sentences in our catalogue. It asks gettext, which knows compiled files only."""
    for name in MODULES:
        module = importlib.import_module(f"click.{name}")
        for function, ours in (("_", _said), ("ngettext", _of_number)):
            if hasattr(module, function):
                setattr(module, function, ours)


def _said(english: str) -> str:
    return english if english in _NAMES else words(english)


def _of_number(one: str, many: str, number: int) -> str:
    return words(one if number == 1 else many)


def in_language(command: C) -> C:
    """*command* with its help in the language of the person, and every command below it."""
    if language() == ENGLISH:
        return command
    made = copy.copy(command)
    made.help = in_paragraphs(command.help)
    made.options_metavar = command.options_metavar and words(command.options_metavar)
    made.params = [_param(each) for each in command.params]
    made._help_option = None  # noqa: SLF001 - Click keeps the option of the first --help, in the language of that moment
    if isinstance(made, click.Group):
        made.subcommand_metavar = words(made.subcommand_metavar)
        made.commands = {name: in_language(each) for name, each in made.commands.items()}
    return made


def in_paragraphs(text: str | None) -> str | None:
    """A help text, paragraph by paragraph, however its lines are broken."""
    return text and "\n\n".join(words(each) for each in paragraphs(text))


def paragraphs(text: str) -> list[str]:
    """The paragraphs of *text*, each in one line."""
    return [" ".join(each.split()) for each in text.split("\n\n")]


def _param(given: click.Parameter) -> click.Parameter:
    made = copy.copy(given)
    if isinstance(made, click.Option):
        made.help = in_paragraphs(made.help)
    if isinstance(made.type, click.Path):
        made.type = copy.copy(made.type)
        made.type.name = words(made.type.name)
    if (metavar := metavar_of(given)) is not None:
        made.metavar = words(metavar)
    return made


def metavar_of(given: click.Parameter) -> str | None:
    """What stands for the value of a parameter in help; None where Click puts it together from parts."""
    if given.metavar is not None:
        return given.metavar
    if isinstance(given, click.Option):
        composed = given.is_flag or given.count or isinstance(given.type, click.Choice | click.Tuple)
        return None if composed else given.type.name.upper()
    return given.name.upper() if given.name and given.required and given.nargs == 1 else None
