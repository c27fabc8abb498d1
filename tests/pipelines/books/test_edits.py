"""A person may merge, split and rename chapters; the text stays the same, and pages stay with it."""

from __future__ import annotations

import pytest

from retoma.errors import ConfigurationError
from retoma.pipelines.books.ports import Chapter, ChapterPlan
from retoma.pipelines.books.remarks import remark
from retoma.pipelines.books.text import edits

PLAN = ChapterPlan(
    chapters=(
        Chapter(number="1", title="Um", text="Aqui começa.\nAinda aqui.", pages=(1, 2), page_starts=((0, 1), (13, 2))),
        Chapter(number="2", title="Dois", text="Lá adiante.\nO fim.", pages=(2, 3), page_starts=((0, 2), (12, 3))),
        Chapter(number="3", title="Três", text="Depois do fim.", pages=(4,), page_starts=((0, 4),)),
    ),
    doubts=(remark("numbers_missing", n=1, numbers="4"),),
    detector="named",
)


def test_a_chapter_gets_another_title() -> None:
    told = edits.rename(PLAN, "2", "  O  segundo ")

    assert [each.title for each in told.chapters] == ["Um", "O segundo", "Três"]
    assert told.detector == "named, by hand"


def test_chapters_become_one_and_keep_their_words_and_pages() -> None:
    merged = edits.merge(PLAN, "1", "2").chapters[0]

    assert (merged.number, merged.title, merged.pages) == ("1", "Um", (1, 2, 3))
    assert merged.text == "Aqui começa.\nAinda aqui.\n\nDois\n\nLá adiante.\nO fim."
    assert [merged.text[at : at + 5] for at, _ in merged.page_starts] == ["Aqui ", "Ainda", "O fim"]


def test_a_chapter_is_parted_where_a_person_says() -> None:
    told = edits.split(PLAN, "1", 13, title="Um e meio")

    assert [(each.number, each.title, each.text, each.pages) for each in told.chapters[:2]] == [
        ("1", "Um", "Aqui começa.", (1,)),
        ("1b", "Um e meio", "Ainda aqui.", (2,)),
    ]
    assert told.chapters[1].page_starts == ((0, 2),)


def test_what_was_parted_twice_has_three_numbers() -> None:
    told = edits.split(edits.split(PLAN, "1", 13), "1", 5)

    assert [each.number for each in told.chapters] == ["1", "1c", "1b", "2", "3"]


def test_what_is_left_out_is_said() -> None:
    told = edits.leave_out(PLAN, "3")

    assert [each.number for each in told.chapters] == ["1", "2"]
    assert [(each.kind, each.title, each.words) for each in told.left_out] == [("by hand", "Três", 3)]


def test_who_accepts_a_plan_ends_its_doubts() -> None:
    assert edits.accept(PLAN).doubts == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda: edits.rename(PLAN, "9", "Nove"),
        lambda: edits.rename(PLAN, "1", " "),
        lambda: edits.merge(PLAN, "2", "1"),
        lambda: edits.split(PLAN, "1", 0),
        lambda: edits.split(PLAN, "1", 900),
        lambda: edits.leave_out(ChapterPlan(chapters=PLAN.chapters[:1]), "1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_way_out(change) -> None:
    with pytest.raises(ConfigurationError):
        change()
