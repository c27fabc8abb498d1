"""Text that PostgreSQL cannot hold is found, and made one that it can."""

from __future__ import annotations

import pytest

from retoma.values.text import storable, unstorable_mark


@pytest.mark.parametrize("text", ["", "plain", "ação", "𝒳", "\t\n\x01\x7f", "\ufffd"])
def test_what_postgresql_holds_is_left_alone(text: str) -> None:
    assert storable(text) is text
    assert unstorable_mark(text) is None


@pytest.mark.parametrize(
    ("text", "mark", "kept"),
    [
        ("a\0b", "\0", "a\ufffdb"),
        ("a\ud800b\0", "\ud800", "a\ufffdb\ufffd"),
        ("\udfff", "\udfff", "\ufffd"),
        ("\ud835\udcb3", "\ud835", "𝒳"),
    ],
)
def test_nul_and_half_characters_are_replaced_and_two_halves_made_whole(text: str, mark: str, kept: str) -> None:
    assert unstorable_mark(text) == mark
    assert storable(text) == kept
    assert unstorable_mark(kept) is None
