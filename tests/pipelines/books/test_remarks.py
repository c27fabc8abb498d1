"""Remarks are kept as codes with values, and said in the language of who reads them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sample_books import body_of, ours

from retoma.pipelines import books
from retoma.pipelines.books.compose import sealed
from retoma.pipelines.books.contract import Checkpoint
from retoma.pipelines.books.reading import reasons
from retoma.pipelines.books.remarks import Remark, _words, all_said, of_values, remark, said, to_values
from retoma.pipelines.books.verdicts import judge

CODES_OF_COUNTS = {"words", "key_points", "quotations", "examples"}


def _made() -> Iterator[tuple[str, set[str]]]:
    """Every code that the product writes down, with the names of its values."""
    for file in Path(books.__path__[0]).rglob("*.py"):
        for each in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "remark":
                names = {str(keyword.arg) for keyword in each.keywords}
                if isinstance(each.args[0], ast.Constant):
                    yield str(each.args[0].value), names
                elif file.name == "audit.py":
                    yield from ((code, names) for code in CODES_OF_COUNTS)


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_code_has_words_that_use_its_values(language: str) -> None:
    made = list(_made())
    assert len({code for code, _ in made}) > 20

    for code, names in made:
        text = said(Remark(code, {name: f"<{name}>" for name in names}), language)
        assert not text.startswith(f"{code} "), f"{code} has no words in {language}"
        assert "{" not in text
    assert {code for code, _ in made} | {"as_said"} == {each.removesuffix("_one") for each in _words(language)}


def test_one_is_said_otherwise_than_many_and_long_numbers_are_parted() -> None:
    many, one = remark("few_chapters", n=2, words=61_000), remark("few_chapters", n=1, words=61_000)

    assert said(many, "pt") == "Só 2 capítulos em 61.000 palavras: é pouco para um livro assim."
    assert said(one, "en") == "Only one chapter in 61,000 words: that is little for such a book."


def test_what_is_kept_comes_back_and_an_old_sentence_says_itself() -> None:
    remarks = (remark("empty"), remark("tries", regenerations=6, addendums=0))

    kept = json.loads(json.dumps(to_values(remarks)))

    assert of_values(kept) == remarks
    assert all_said(of_values(["Mark 1-a names no chunk."]), "pt") == ["Mark 1-a names no chunk."]


@pytest.mark.parametrize(
    "told", [remark("nobody_knows", n=3), remark("tries"), remark("chunks", n=2), Remark("", {"a": 1})]
)
def test_a_remark_of_somebody_else_is_shown_and_breaks_nothing(told: Remark) -> None:
    assert str(next(iter(told.values.values()), "")) in said(told, "pt")
    assert said(told, "xx")


def test_an_audit_that_was_kept_in_sentences_is_still_a_valid_checkpoint() -> None:
    value = ours("1")
    value["retoma"] |= {"passed": False, "errors": ["Mark 1-a names no chunk."]}

    made = judge(sealed(value)).checkpoint

    assert made is not None
    assert all_said(reasons(made), "pt") == ["Mark 1-a names no chunk."]


@pytest.mark.parametrize("errors", [[3], [{"code": "x"}], [{"code": "", "values": {}}], [{"values": {}}], "x", None])
def test_errors_that_are_no_remarks_make_a_checkpoint_invalid(errors: object) -> None:
    value = ours("1")
    value["retoma"]["errors"] = errors

    assert not judge(body_of(value)).valid


def test_an_item_is_called_by_its_text_and_a_missing_one_is_told_once() -> None:
    value = ours("1")
    value["coverage_report"]["recall_set"] |= {"critical_items_covered": 2, "missing_critical_item_ids": ["1-a"]}
    value["coverage_report"]["audit_result"] |= {"passed": False, "missing_markers": ["1-a"]}
    value["retoma"] |= {
        "passed": False,
        "errors": to_values([remark("item_unmarked", item="1-a"), remark("mark_off", item="1-a")]),
    }

    assert all_said(reasons(Checkpoint.model_validate(value)), "pt") == [
        "Um ponto essencial falta no resumo: Item.",
        "A frase marcada com “Item.” não fala dele.",
    ]
