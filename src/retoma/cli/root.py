"""The first word of a command: finds the file it lives in, and says what went wrong in two lines."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""Under each title, commands by name: where each is (module:attribute), and its one sentence."""

INTERRUPTED = 130


class Root(click.Group):
    """A group whose commands are imported when they are used."""

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self._places = {name: place for section in sections.values() for name, place in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's own signature
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._places:
            return None
        place, _sentence = self._places[cmd_name]
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._places and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = " or ".join(f"'retoma {name}'" for name in get_close_matches(args[0], self._places))
            ctx.fail(f"There is no command {args[0]!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, sentence) for name, (_place, sentence) in section.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that *args* name, and leave with its exit code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        try:
            # What comes back is an exit code when --help or ctx.exit ended it, and None otherwise.
            code = super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "retoma"
            sys.exit(_say(error.format_message(), f"{path} --help", error.exit_code))
        except click.ClickException as error:
            sys.exit(_say(error.format_message(), "", error.exit_code))
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - whatever it is, a person gets one line and a hint
            from retoma.cli.trouble import explain

            sys.exit(_say(*explain(error, debug="--debug" in given)))
        sys.exit(code if isinstance(code, int) else 0)


def _say(message: str, next: str, exit_code: int) -> int:
    click.echo(message, err=True)
    if next:
        click.echo(f"Try: {next}", err=True)
    return exit_code
