"""Sentences are whole, pieces of their text, and in a language that is told apart."""

import time
from concurrent.futures import ThreadPoolExecutor

import py3langid  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retoma.providers.local.sentences import language_of, sentences


def test_abbreviations_of_lawyers_end_no_sentence() -> None:
    text = "Nos termos do art. 5º, inc. XXXV, o Sr. João requer (fls. 23/25). O Dr. Paulo assinou. Vale até 12.03.2024."

    assert sentences(text) == [
        "Nos termos do art. 5º, inc. XXXV, o Sr. João requer (fls. 23/25).",
        "O Dr. Paulo assinou.",
        "Vale até 12.03.2024.",
    ]


def test_points_and_shouted_titles_stand_for_themselves() -> None:
    text = (
        "DO OBJETO\nO imóvel é cedido\npara moradia. Obriga-se a:\na) pagar em dia;\nb) zelar pelo bem.\n- e mais nada"
    )

    assert sentences(text, "pt") == [
        "DO OBJETO", "O imóvel é cedido\npara moradia.", "Obriga-se a:", "a) pagar em dia;", "b) zelar pelo bem.",
        "e mais nada",
    ]  # fmt: skip


@given(st.text(max_size=400))
@settings(max_examples=200, deadline=None)
def test_a_sentence_is_always_a_piece_of_its_text(text: str) -> None:
    place = 0
    for sentence in sentences(text, "pt"):
        place = text.index(sentence, place) + len(sentence)


def test_two_languages_are_told_apart() -> None:
    assert language_of("O contrato foi assinado ontem.") == "pt"
    assert language_of("The contract was signed yesterday.") == "en"


def test_of_many_who_ask_for_a_language_at_once_only_one_loads_what_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = most = 0

    def rank(_: str) -> list[tuple[str, float]]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)  # as long as a model is being loaded, it is not there
        inside -= 1
        return [("fr", 0.0), ("pt", -1.0)]

    monkeypatch.setattr(py3langid, "rank", rank)
    with ThreadPoolExecutor(10) as threads:
        told = list(threads.map(language_of, ["um texto"] * 10))

    assert told == ["pt"] * 10
    assert most == 1
