"""What NO_COLOR takes away from tables and moving views."""

from __future__ import annotations

import pytest
from rich.text import Text

from retoma.cli import output


@pytest.mark.parametrize("plain", [True, False])
def test_no_color_takes_bold_type_away_as_well(monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1" if plain else "")
    screen = output.screen()

    with screen.capture() as printed:
        screen.print(Text("heading", style="bold green"))

    assert screen.is_terminal, "it still moves"
    assert ("\x1b[" not in printed.get()) == plain
