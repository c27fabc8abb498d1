"""What the command line says in English it says in Portuguese, too: every help text, heading, sentence and error."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import click
import pytest

import retoma.cli
from retoma.app.extension import load
from retoma.cli.click_language import MODULES, metavar_of, paragraphs
from retoma.cli.language import packages
from retoma.isolate.layers import Layer
from retoma.model.batch import BatchState
from retoma.model.job import AttemptEnding, Job, JobState
from retoma.pipelines import ALL
from retoma.web.words.sentences import STATES, in_portuguese

SOURCE = Path(__file__).parents[2] / "src/retoma"
CORE = ("cli", "demo", "bench")
ROOMS = (*CORE, *sorted(path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.glob("pipelines/*/cli.py")))
"""Folders with commands; each has its catalogue in words/cli.toml."""
SAYING = {"talk", "words", "Phrase", "agreed", "title"}
"""Calls whose first argument is a sentence."""
OF_PROGRAMMERS = re.compile(
    r"Deprecation|declar|defined|true/false|iterable|color|^Choice|confirmation|prompting|entered|Do you want|prog"
    r"|start character"
)
"""What Click says to those who write commands."""
FINDING = {"green", "amber", "red", "judged"}
"""Calls whose arguments are: what was looked at, what was seen, and what to do."""
SAME = {
    "ID", "N", "S", "B", "Q", "P", "K", "V", "US", "JSON", "CODE", "ZIP", "PIPELINE", "DIR", "id", "cron", "pid", "seq",
    "host", "status", "pipeline", "pipelines", "worker", "workers", "tokens", "min", "s", "h", "item", "keep-alive",
    "PostgreSQL", "MB", "bytes", "sandbox", "UUID", "total", "RETOMA_SANDBOX", "auto",
}  # fmt: skip
"""What is written alike in both languages."""
ERRORS = {
    "ConfigurationError", "NotFound", "Conflict", "AppNotFound", "UnknownPipeline", "DatabaseError", "QueueReserved",
    "DatabaseUnreachable", "DatabaseTooOld", "SchemaMismatch", "SchemaBusy", "EmbeddedUnavailable", "BatchConflict",
    "KeyTaken", "RowConflict", "FileRefused", "StoreFull", "StoreDown", "ReportUnreadable",
}  # fmt: skip
COMMAND = re.compile(r"retoma [a-z]+( --?[\w-]+| [a-z:.]+)*$|alter |create extension|vacuum \w+;?$")
"""What is typed, and not read."""
DOORS = (
    "cli/*.py", "app/loader.py", "app/extension.py", "app/calls.py", "app/access/*.py", "commands/*.py",
    "postgres/**/*.py", "system/settings.py", "web/server/*.py", "worker/loader.py", "worker/supervisor.py",
    "providers/factory.py",
    "pipelines/*/cli.py", "pipelines/*/library.py", "pipelines/*/catalogue.py", "pipelines/classification/labels.py",
    "pipelines/classification/intake.py", "pipelines/books/folder.py", "pipelines/books/transfer.py",
    "pipelines/quotes/reports.py", "pipelines/files/ingest.py",
)  # fmt: skip
"""Modules whose errors a command shows."""
COMPOSED = {
    "Z: Z.", "Z is Z.", "Z is not Z.", "What Z says Z.", "This database has no Z yet.",
    "Z; they serve programs from Z on.",
}  # fmt: skip
"""Errors that are put together from sentences."""
_PLACE = string.Formatter()


def modules(room: str) -> list[Path]:
    """The modules of *room* that speak to a person."""
    places = ("cli/*.py", "pipelines/*.py") if room == "cli" else (f"{room}/**/*.py",)
    found = (path for place in places for path in SOURCE.glob(place))
    return sorted(path for path in found if "retoma.cli" in path.read_text(encoding="utf-8"))


def doctors() -> list[Path]:
    """The modules whose sentences the doctor says, in the terminal and in the console."""
    return [*sorted(SOURCE.glob("app/doctor/*.py")), SOURCE / "pipelines/vectors_health.py", SOURCE / "web/checkup.py"]


def texts(node: ast.expr | None) -> list[str]:
    """What an expression may say."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=one, orelse=other):
            return texts(one) + texts(other)
    return []


def keys(node: ast.expr) -> list[str]:
    return [text for key in node.keys for text in texts(key)] if isinstance(node, ast.Dict) else []


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def said_in(module: Path) -> Iterator[str]:
    """Sentences, headings and names that a module prints."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    listed = {
        name for node in ast.walk(tree) if called(node) == "fields" for name in names_in(node) if name != "output"
    }
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation, value=ast.Dict() as columns) if "Columns" in ast.unparse(
                annotation
            ):
                yield from keys(columns)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as values) if name in listed:
                yield from keys(values)
            case ast.Call(args=args, keywords=given):
                name = called(node)
                if name in SAYING and args:
                    yield from texts(args[0])
                if name in FINDING:
                    yield from (text for each in args for text in texts(each) if not COMMAND.match(text))
                if name == "table" and len(args) > 1:
                    yield from keys(args[1])
                    yield from (text for each in given if each.arg == "nothing" for text in texts(each.value))
                if name == "fields":
                    yield from (text for each in args for text in keys(each))


def helped(command: click.Command) -> Iterator[str]:
    """What Click shows of a command and of those below it."""
    yield from paragraphs(command.help or "")
    yield command.options_metavar or ""
    for each in command.params:
        if getattr(each, "hidden", False):
            continue
        if isinstance(each, click.Option) and each.help:
            yield from paragraphs(each.help)
        yield metavar_of(each) or ""
    if isinstance(command, click.Group):
        yield command.subcommand_metavar
        for below in command.commands.values():
            yield from helped(below)


def commands(room: str) -> Iterator[str]:
    """What the commands of *room* say in help, and what the list of commands says of them."""
    own = [each for section in retoma.cli.main._own.values() for each in section.values()]
    offered = [(each.command, each.sentence) for extension in ALL for each in extension.commands.values()]
    here = f"retoma.{room.replace('/', '.')}."
    yield from (sentence for place, sentence in own if room == "cli")
    yield from (sentence for place, sentence in offered if place.startswith(here))
    for place, _ in (*own, *offered):
        if place.startswith(here):
            yield from helped(load(place))
    if room == "cli":
        yield from paragraphs(retoma.cli.main.help or "")
        yield from (each.help or "" for each in retoma.cli.main.params if isinstance(each, click.Option))
        yield from retoma.cli.main._own


@cache
def of_click() -> set[str]:
    """What Click itself says: the arguments of gettext in its modules."""
    of_options = {"required"}  # which is looked up by a name
    files = [Path(click.__file__).with_name(f"{name}.py") for name in MODULES]
    return of_options | {
        text
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and called(node) in {"_", "ngettext"}
        for each in node.args
        for text in texts(each)
    }


@cache
def needed(room: str) -> set[str]:
    """Every English text of *room* that a person may read."""
    found = {text for module in modules(room) for text in said_in(module)} | set(commands(room))
    if room == "cli":
        found |= {str(each) for kind in (JobState, BatchState, AttemptEnding) for each in kind}
        found |= set(Job.__slots__)
    return {text for text in found if differs(text)}


def differs(text: str) -> bool:
    """Whether *text* has a word of English."""
    return not set(re.findall(r"[^\W\d][\w-]*", re.sub(r"\{[^}]*\}", "", text))) <= SAME


@cache
def catalogue(room: str) -> dict[str, str]:
    file = SOURCE / room / "words/cli.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def sentences(room: str) -> dict[str, str]:
    file = SOURCE / room / "words/sentences.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


@cache
def known(room: str) -> dict[str, str]:
    """What *room* may say in Portuguese: its own words, and those of the core."""
    core = {english: said for each in CORE for english, said in catalogue(each).items()}
    return STATES | sentences("web") | sentences("cli") | doctor() | core | sentences(room) | catalogue(room)


def doctor() -> dict[str, str]:
    return tomllib.loads((SOURCE / "web/words/doctor.toml").read_text(encoding="utf-8"))


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in _PLACE.parse(text) if name}


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_command_says_is_said_in_portuguese_too(room: str) -> None:
    missing = sorted(needed(room) - set(known(room)))

    assert not missing, f"write these down in {room}/words/cli.toml:\n" + "\n".join(map(_as_toml, missing))


def _as_toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '" = ""'


def test_what_the_doctor_says_is_said_in_portuguese_too_and_nothing_else_is_written_down() -> None:
    said = {text for module in doctors() for text in said_in(module) if differs(text)}
    said |= {str(each) for each in Layer if differs(str(each))}

    missing = sorted(said - set(doctor()) - set(STATES))

    assert not missing, "write these down in web/words/doctor.toml:\n" + "\n".join(map(_as_toml, missing))
    assert not sorted(set(doctor()) - said)
    assert not [each for each, told in doctor().items() if places(each) != places(told)]


def test_what_click_says_is_said_in_portuguese_too() -> None:
    missing = sorted(
        {text for text in of_click() if not OF_PROGRAMMERS.search(text) and differs(text)} - set(known("cli"))
    )

    assert not missing, "write these down in cli/words/cli.toml:\n" + "\n".join(map(_as_toml, missing))


@pytest.mark.parametrize("room", ROOMS)
def test_both_languages_have_the_same_places(room: str) -> None:
    wrong = [
        f"{english!r}: {places(english)} and {places(said)}"
        for english, said in catalogue(room).items()
        if (places(said) - places(english) if english in of_click() else places(english) != places(said))
    ]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_no_entry_of_a_catalogue_is_unused(room: str) -> None:
    used = needed(room) | (of_click() if room == "cli" else set())
    elsewhere = set().union(*(needed(each) for each in ROOMS)) if room == "cli" else set()

    assert not sorted(set(catalogue(room)) - used - elsewhere)


def test_a_text_has_one_translation() -> None:
    """An extension does not change the words of the core, nor one of another."""
    said: dict[str, set[str]] = {}
    for room in ROOMS:
        for english, portuguese in catalogue(room).items():
            said.setdefault(english, set()).add(portuguese)

    assert not {english: each for english, each in said.items() if len(each) > 1}


def test_a_sentence_is_never_filled_in_before_it_is_said() -> None:
    """What an f-string made cannot be looked up."""
    wrong = [
        f"{module.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node)[:80]}"
        for room in ROOMS
        for module in modules(room)
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and called(node) in SAYING | {"UsageError", "BadParameter"}
        and node.args
        and isinstance(node.args[0], ast.JoinedStr | ast.BinOp)
    ]

    assert not wrong, "\n".join(wrong)


def raised_in(module: Path) -> Iterator[str]:
    """The errors that a module raises, and what it advises; what is filled in stands as one letter."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    named = {
        name: text
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for name, text in [(ast.unparse(node.targets[0]), node.value)]
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in ERRORS:
            said = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "next")]
            for each in said:
                yield from filled(each, named)


def filled(node: ast.expr, named: Mapping[str, ast.expr]) -> list[str]:
    """What an expression may say; *named* are the texts that have a name in its module."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name) | ast.FormattedValue(value=ast.Name(id=name)) if name in named:
            return filled(named[name], named)
        case ast.JoinedStr(values=parts):
            return ["".join((filled(part, named) or ["Z"])[0] for part in parts)]
        case ast.IfExp(body=one, orelse=other):
            return filled(one, named) + filled(other, named)
        case ast.BinOp(left=left, right=right):
            return [first + second for first in filled(left, named) for second in filled(right, named)]
    return []


def untold(module: Path) -> list[str]:
    """The errors of a module that nobody has written down in Portuguese."""
    return [
        line
        for text in dict.fromkeys(raised_in(module))
        if text not in COMPOSED
        for line in text.split("\n")
        if differs(line.replace("Z", ""))
        and not COMMAND.match(line.replace("Z", "x"))
        and not line.startswith("pip install 'retoma[")
        and (in_portuguese(line, packages=packages()) or "Não existe: ").startswith("Não existe: ")
    ]


def test_an_error_that_a_command_shows_is_told_in_portuguese_too() -> None:
    missing = {
        str(module.relative_to(SOURCE)): lines
        for pattern in DOORS
        for module in sorted(SOURCE.glob(pattern))
        if (lines := untold(module))
    }

    told = "\n".join(f"# {module}\n" + "\n".join(map(_as_toml, lines)) for module, lines in missing.items())
    assert not missing, f"write these down in words/sentences.toml (Z is a place):\n{told}"


@pytest.mark.parametrize(
    "said",
    [
        "Callers need an API key.",
        "Callers need an API key or an account.",
        "To sign in with a browser, once: http://127.0.0.1:8000/login?token=x",
        "Server process 7 ended with -9; another takes its place.",
        "The upgrade to 0012 waits: retoma.jobs is held by pid 7 (psql, idle in transaction for 90 s) (try 2 of 20).",
        "The Retoma tables are at revision 0010, and this program needs 0012.",
        "The setting poll_seconds is wrong: Input should be greater than 0.",
    ],
)
def test_what_the_engine_says_on_the_way_is_told_in_portuguese_too(said: str) -> None:
    assert in_portuguese(said, packages=packages())


@pytest.mark.parametrize(
    "file", sorted(SOURCE.glob("**/words/sentences.toml")), ids=lambda path: str(path.parent.parent.name)
)
def test_an_error_has_the_same_places_in_both_languages(file: Path) -> None:
    wrong = []
    for english, said in tomllib.loads(file.read_text(encoding="utf-8")).items():
        if places(said) - set(re.findall(r"\{(\w+)\}", english)):
            wrong.append(f"{english!r}: {said!r}")

    assert not wrong, "\n".join(wrong)
