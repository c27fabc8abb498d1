"""The pages show the figures of one recorded run of ``retoma accuracy``, and no others."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retoma.bench.evaluation import heldout, judging
from retoma.bench.evaluation.accuracy import MEASURES
from retoma.bench.evaluation.heldout import labels as label_sets
from retoma.providers.local.encoder import best_encoder

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = json.loads((ROOT / "docs/reference/accuracy.json").read_text(encoding="utf-8"))
SHARE = re.compile(r"(\d+[.,]\d) %(?: \((\d+[.,]\d)–(\d+[.,]\d)\))?")


def _cells() -> Iterator[dict[str, Any]]:
    for name in ("documents", "news"):
        for language in heldout.LANGUAGES:
            for naming in ("names", "described"):
                cell = RECORD[name][language][naming]
                yield cell
                if "right" in cell["taught_by_the_batch"]:  # else the batch was not believed
                    yield cell["taught_by_the_batch"]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _section(page: str) -> str:
    """What a page says of accuracy: from the question about it to the next heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page == "docs/reference/accuracy.md":
        return text
    return text.partition("retoma accuracy`")[2].partition("\n## ")[0]


def _recorded(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _recorded(each)
    elif isinstance(value, list):
        for each in value:
            yield from _recorded(each)
    elif isinstance(value, float):
        yield value


@pytest.mark.parametrize("page", ["README.md", "LEIAME.md", "docs/reference/accuracy.md"])
def test_a_page_shows_only_shares_that_were_recorded_with_their_intervals(page: str) -> None:
    known = {_percent(each) for each in _recorded(RECORD)}
    pairs = {(_percent(each["right"]), *map(_percent, each["interval"])) for each in _cells()}

    shown = [tuple(each.replace(",", ".") for each in found if each) for found in SHARE.findall(_section(page))]

    assert len(shown) >= 8
    assert [each for each in shown if each[0] not in known] == []
    assert [each for each in shown if len(each) > 1 and each not in pairs] == []


@pytest.mark.parametrize("page", ["README.md", "LEIAME.md", "docs/reference/accuracy.md"])
def test_a_page_shows_every_set_in_both_languages(page: str) -> None:
    shown = {tuple(each.replace(",", ".") for each in found) for found in SHARE.findall(_section(page))}

    for name in ("documents", "news"):
        for language in heldout.LANGUAGES:
            for naming in ("names", "described"):
                cell = RECORD[name][language][naming]
                assert (_percent(cell["right"]), *map(_percent, cell["interval"])) in shown


def test_the_record_is_of_the_whole_test_part() -> None:
    assert {"documents", "news", "search"} <= set(RECORD) <= set(MEASURES)
    for name, made in (("documents", heldout.documents), ("news", heldout.news)):
        assert RECORD[name]["split"] == "test"
        for language in heldout.LANGUAGES:
            assert RECORD[name][language]["texts"] == len(made("test", language))


@pytest.mark.timeout(600)
async def test_the_record_is_what_this_classifier_gives() -> None:
    """The smallest of its sets, measured again: who changes the classifier records anew."""
    texts = heldout.news("test", "en")
    labels = label_sets.topics("en", described=True)
    judged = await judging.judge(
        [each.text for each in texts],
        [each.label for each in texts],
        [each.template for each in texts],
        list(labels.values()),
        judging.Remembering(best_encoder()),
    )

    assert sum(judged.right) / len(texts) == pytest.approx(RECORD["news"]["en"]["described"]["right"], abs=0.01)
