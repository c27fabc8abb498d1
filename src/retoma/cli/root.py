"""The first word of a command: finds the file it lives in, and says what went wrong in two lines."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import click

from retoma.cli.language import ENGLISH, language, words
from retoma.system.garbage import loading

Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""Under each title, commands by name: where each is (module:attribute), and its one sentence."""

INTERRUPTED = 130
C = TypeVar("C", bound=click.Command)


class Root(click.Group):
    """A group whose commands are imported when they are used."""

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._own = sections

    @cached_property
    def sections(self) -> Sections:
        """Our own commands, and those of the installed extensions. Those are looked for only when it matters: to find
        them, the metadata of every installed package is read.
        """
        from retoma.app.extension import installed

        found = {title: dict(section) for title, section in self._own.items()}
        for extension in installed():
            for name, each in extension.commands.items():
                found.setdefault(each.section, {})[name] = (each.command, each.sentence)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take --api from wherever it stands: it is the same for every command."""
        ctx.obj, rest = _server_of(args)
        if not ctx.resilient_parsing and (ctx.obj is not None or os.environ.get("RETOMA_API_URL")):
            from retoma.cli.speaking import refuse_without_database

            refuse_without_database(ctx.obj, rest)
        return super().parse_args(ctx, rest)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's own signature
        return [name for section in self.sections.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        place = _place(self._own, cmd_name) or _place(self.sections, cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        with loading():
            command: click.Command = getattr(importlib.import_module(module), attribute)
        return _summed_up(_in_language(command))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and not (_place(self._own, args[0]) or _place(self.sections, args[0])):
            from difflib import get_close_matches

            near = words(" or ").join(
                f"'retoma {name}'" for name in get_close_matches(args[0], self.list_commands(ctx))
            )
            ctx.fail(
                words("There is no command {name!r}. Did you mean {near}?", name=args[0], near=near)
                if near
                else words("There is no command {name!r}.", name=args[0])
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, section in self.sections.items():
            with formatter.section(words(title)):
                formatter.write_dl([(name, words(sentence)) for name, (_place, sentence) in section.items()])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        click.Group.format_help(_in_language(self), ctx, formatter)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that *args* name, and leave with its exit code."""
        if language() != ENGLISH:
            from retoma.cli.click_language import teach

            teach()
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        try:
            # What comes back is an exit code when --help or ctx.exit ended it, and None otherwise.
            code = super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:  # what it says is the help itself
            sys.exit(_say(error.format_message(), "", error.exit_code))
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "retoma"
            sys.exit(_say(error.format_message(), f"{path} --help", error.exit_code))
        except click.ClickException as error:
            sys.exit(_say(error.format_message(), "", error.exit_code))
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - whatever it is, a person gets one line and a hint
            from retoma.cli.errors import explain

            sys.exit(_say(*explain(error, debug="--debug" in given)))
        sys.exit(code if isinstance(code, int) else 0)


def _server_of(args: Sequence[str]) -> tuple[str | None, list[str]]:
    """The server that --api names, and the arguments without it."""
    server: str | None = None
    rest: list[str] = []
    following = iter(args)
    for each in following:
        if each == "--":
            return server, [*rest, each, *following]
        if each == "--api":
            server = next(following, "")
        elif each.startswith("--api="):
            server = each.removeprefix("--api=")
        else:
            rest.append(each)
    return server, rest


def _place(sections: Sections, name: str) -> str | None:
    """Where a command is."""
    return next((section[name][0] for section in sections.values() if name in section), None)


def _in_language(command: C) -> C:
    """*command* with its help in the language of the person."""
    if language() == ENGLISH:
        return command
    from retoma.cli.click_language import in_language

    return in_language(command)


def _summed_up(command: C) -> C:
    """*command* with the whole first sentence of each command below it, broken into lines. Click alone cuts a sentence
    off where the line ends.
    """
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        first = " ".join((each.help or "").partition("\n\n")[0].split())
        each.short_help = first.partition(". ")[0].removesuffix(".") + "." if first else None
        _summed_up(each)
    return command


def _say(message: str, next: str, exit_code: int) -> int:
    from retoma.cli.output import advise, talk

    talk(message)
    if next:
        advise(next)
    return exit_code
