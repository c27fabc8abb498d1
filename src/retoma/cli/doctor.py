"""retoma doctor: what is well, what is not, and what to do about it."""

from __future__ import annotations

import asyncio
import shutil
import textwrap

import click

from retoma.app.doctor.findings import Finding, amber, green, red
from retoma.cli import context, output
from retoma.cli.language import relayed, words

__all__ = ["Finding", "amber", "green", "red"]

_MARKS = {"green": ("✔", "green"), "amber": ("!", "yellow"), "red": ("✖", "red")}


@click.command()
@output.as_json
def doctor(*, as_json: bool) -> None:
    """Check the database, the schema and the workers: green, amber or red, with the fix.

    The exit code is 1 when something is red.
    """
    from retoma.app.doctor.look import examine

    findings = asyncio.run(examine(context.settings()))
    if as_json:
        output.print_json(findings)
    elif output.in_terminal():
        _draw(findings)
    else:
        columns = {name: _field(name) for name in ("level", "what", "seen", "next")}
        output.table(findings, columns, nothing="")
    click.get_current_context().exit(int(any(finding.level == "red" for finding in findings)))


def _field(name: str) -> output.Reader[Finding]:
    return lambda finding: getattr(finding, name)


def _draw(findings: list[Finding]) -> None:
    room = shutil.get_terminal_size().columns - 2
    names = [words(finding.what) for finding in findings]
    width = max(map(len, names)) + 2
    for finding, name in zip(findings, names, strict=True):
        mark, colour = _MARKS[finding.level]
        seen = textwrap.fill(f"{name:<{width}}{relayed(finding.seen)}", room, subsequent_indent=" " * (width + 2))
        output.say((mark, {"fg": colour, "bold": True}), f" {seen}")
        if finding.next:
            indent = " " * (width + 2)
            told = words("Try: {next}", next=relayed(finding.next))
            fix = textwrap.fill(told, room, initial_indent=indent, subsequent_indent=indent)
            output.say(fix, fg=colour)
