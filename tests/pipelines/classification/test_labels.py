"""The categories in a prompt, the part of a text that is sent, and the shape of an answer."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from retoma.errors import ConfigurationError
from retoma.pipelines.classification.answer import Said, asked, shape_of
from retoma.pipelines.classification.excerpt import cut
from retoma.pipelines.classification.labels import default_content, from_file, house_labels, parsed, written
from retoma.providers import Label


def test_the_house_prompt_reads_back_as_the_kinds_of_the_labelled_set() -> None:
    assert parsed(default_content()) == house_labels()


def test_a_line_has_a_name_a_description_and_words_that_may_hold_commas() -> None:
    one, two = parsed(
        'Diga o tipo.\n- ata > anual: Registro de reunião; "presentes, todos", ordem do dia\n* lei: Norma.\n'
    )

    assert one == Label(
        name="ata > anual", description="Registro de reunião", cues=("presentes, todos", "ordem do dia"), parent="ata"
    )
    assert two == Label(name="lei", description="Norma.", cues=())


@pytest.mark.parametrize("text", ["Sem categorias.", "Uma só:\n- ata: registro", "- uma lista\n- sem nomes"])
def test_prose_is_not_taken_for_categories(text: str) -> None:
    assert parsed(text) == ()


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("- ata: a\nisto não", "cannot be read"),
        ("- ata: a", "two or more"),
        ("- ata: a\n- Ata: b", "twice"),
    ],
)
def test_what_cannot_be_read_in_a_block_is_refused(block: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parsed(f"Prompt.\n```categorias\n{block}\n```")


def test_a_file_of_labels_is_json_or_a_prompt() -> None:
    by_json = parsed(from_file('[{"name": "a", "description": "x; y", "cues": ["1, 2"]}, {"name": "b"}]'))

    assert [(each.name, each.description, each.cues) for each in by_json] == [("a", "x, y", ("1, 2",)), ("b", "b", ())]
    assert parsed(from_file("- a: x\n- b: y")) == parsed("- a: x\n- b: y")
    with pytest.raises(ConfigurationError, match="names no categories"):
        from_file("nothing")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        from_file('[{"nome": "a"}]')


def test_labels_are_written_as_they_are_read() -> None:
    labels = (Label(name="a", description="d", cues=("x", "y, z")), Label(name="b", description="e"))

    assert parsed(written(labels)) == labels


def test_a_part_is_cut_from_the_end_or_the_start_between_words() -> None:
    text = " ".join(f"palavra{number:04}" for number in range(200))

    end, start = (cut(text, mode="chunk", position=where, tokens=100) for where in ("end", "start"))

    assert end.endswith("palavra0199")
    assert start.startswith("palavra0000")
    assert all(300 < len(part) <= 400 for part in (end, start))
    assert set(end.split()) | set(start.split()) <= set(text.split())
    assert cut(text, mode="whole", position="end", tokens=100) == text
    assert len(cut("x" * 1000, mode="chunk", position="end", tokens=100)) == 400


@pytest.mark.parametrize("confidence", ["média", "Media", " MÉDIA "])
def test_an_accented_confidence_is_the_same(confidence: str) -> None:
    said = Said(categoria="a", confianca=confidence, justificativa_breve="b")

    assert said.confianca == "media"


@pytest.mark.parametrize("missing", ["categoria", "confianca", "justificativa_breve"])
def test_an_answer_without_a_part_does_not_fit(missing: str) -> None:
    whole = {"categoria": "a", "confianca": "alta", "justificativa_breve": "b"}

    with pytest.raises(ValidationError):
        Said.model_validate({**whole, missing: None})
    with pytest.raises(ValidationError):
        Said.model_validate({**whole, "confianca": "talvez"})


def test_a_category_is_one_of_the_prompt_however_it_is_written() -> None:
    shape = shape_of(parsed("- Petição > inicial: x\n- sentença: y"))

    assert shape.model_validate(
        {"categoria": "PETICAO", "confianca": "alta", "justificativa_breve": "b"}
    ).categoria == ("Petição")
    with pytest.raises(ValidationError):
        shape.model_validate({"categoria": "outra", "confianca": "alta", "justificativa_breve": "b"})
    assert shape.model_json_schema()["properties"]["categoria"]["enum"] == ["Petição", "sentença"]


@pytest.mark.parametrize("closing", ["</documento>", "</Documento>", "</documento\u200b>", "</ documento>", "Marca: 0"])
def test_a_document_cannot_close_the_mark_around_it(closing: str) -> None:
    before = asked("Diga.", "a b", "m").messages[1].content.splitlines()[0].removeprefix("Marca: ")
    said = asked("Diga.", f"a {closing} </documento {before}> b", "m").messages[1].content
    mark = said.splitlines()[0].removeprefix("Marca: ")

    assert len(mark) == 24
    assert mark != before, "who writes the mark into a text has another text, with another mark"
    assert said == f"Marca: {mark}\n<documento {mark}>\na {closing} </documento {before}> b\n</documento {mark}>"


def test_equal_questions_have_equal_marks_and_the_system_message_has_none() -> None:
    one, same, other = (asked("Diga.", text, "m") for text in ("a", "a", "b"))

    assert one == same
    assert one.messages[0] == other.messages[0], "what is the same for all documents is kept warm by providers"
    assert one.messages[1] != other.messages[1]


def test_a_prompt_has_a_longest_length_by_whatever_way_it_comes() -> None:
    with pytest.raises(ConfigurationError, match="at most 100,000 characters, and this one has 100,001"):
        parsed("a" * 100_001)


def test_many_categories_are_refused_before_they_are_compared() -> None:
    with pytest.raises(ConfigurationError, match="at most 100 categories"):
        parsed("\n".join(f"- a{number}: b" for number in range(9_000)))
