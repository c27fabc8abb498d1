"""A summary has the counts it promises, says only what the chapter says, and is checked against it."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import py3langid  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retoma.bench.evaluation import labelled
from retoma.providers import Extraction, Page, ProviderTimeout, RequestRejected
from retoma.providers.local import LocalSummarizer
from retoma.providers.local.chapters import chunks_of
from retoma.providers.local.encoder import Lexical
from retoma.providers.local.sentences import language_of, sentences
from retoma.providers.local.summaries import Chapter, Digest

pytestmark = pytest.mark.timeout(180)


def chapter(text: str, title: str = "Um capítulo") -> Chapter:
    return Chapter(number="1", title=title, text=text, pages=(1,), found_by="whole")


def chapters(language: str) -> tuple[Chapter, ...]:
    book = Extraction(pages=(Page(number=1, text=labelled.book(language)),), reader="text")
    return LocalSummarizer().chapters(book)


LONG = [*chapters("pt")[:2], *chapters("en")]


def digest(of: Chapter) -> Digest:
    return asyncio.run(LocalSummarizer().summarize(of, timeout=120))


@pytest.fixture(scope="module")
def digests() -> list[Digest]:
    return [digest(each) for each in LONG]


def test_the_counts_are_those_of_the_contract(digests: list[Digest]) -> None:
    for told in (each.summary for each in digests):
        assert 300 <= told.summary_words == len(told.text.split()) <= 500
        assert 5 <= len(told.key_points) <= 8
        assert 2 <= len(told.quotes) <= 4
        assert len(told.examples) <= 5
        assert told.words > told.summary_words


def test_everything_that_is_told_stands_in_the_chapter(digests: list[Digest]) -> None:
    for told, source in zip(digests, LONG, strict=True):
        flat = " ".join(source.text.split())
        for said in (*told.summary.quotes, *told.summary.key_points, *told.summary.examples):
            assert said in flat
        assert all(sentence in flat for sentence in sentences(told.summary.text))


def test_a_summary_follows_the_order_of_its_chapter_and_repeats_nothing(digests: list[Digest]) -> None:
    for told, source in zip(digests, LONG, strict=True):
        flat = " ".join(source.text.split())
        places = [flat.index(sentence) for sentence in sentences(told.summary.text)]
        assert places == sorted(set(places))


def test_what_a_chapter_defines_and_rules_is_in_its_summary(digests: list[Digest]) -> None:
    portuguese = digests[0].summary.text

    assert "Chama-se evaporador o primeiro tanque" in portuguese
    assert "Entende-se por salmoura" in portuguese
    for each in digests:
        recall = each.coverage.recall
        assert 1 <= recall.critical <= 12
        assert recall.missing == ()
        assert all(point.id.startswith(f"{each.summary.number}-") for point in recall.points)


def test_spoken_words_are_quoted_and_examples_are_found(digests: list[Digest]) -> None:
    assert any("“O sol manda no dia" in quote for quote in digests[0].summary.quotes)
    assert any(example.startswith("Por exemplo, em setembro") for example in digests[0].summary.examples)


def test_the_recall_is_measured_and_the_audit_counts_again(digests: list[Digest]) -> None:
    for each in digests:
        recall = each.coverage.recall
        assert recall.sentences >= recall.covered > 0
        assert 0.5 < recall.share <= 1
        assert each.coverage.audit.passed
        assert each.coverage.audit.problems == ()
        assert each.coverage.total_chunks == each.coverage.processed_chunks == 1


def test_the_same_chapter_has_the_same_summary_every_time(digests: list[Digest]) -> None:
    assert [digest(each) for each in LONG] == digests


def test_a_chapter_of_fewer_than_300_words_is_given_whole_and_says_so() -> None:
    short = chapters("pt")[2]

    told = digest(short).summary

    assert told.summary_words == told.words == len(short.text.split()) < 300
    assert " ".join(told.text.split()) == " ".join(short.text.split())
    assert told.notes[0] == f"O capítulo tem {told.words} palavras, menos de 300: está aqui inteiro."


def test_a_chapter_of_two_sentences_has_as_much_as_it_can_and_says_so() -> None:
    told = digest(chapter("The wind turned. We went home.", title="Home"))

    assert told.summary.key_points == ("The wind turned.", "We went home.")
    assert "There are only 2 sentences: 2 key points and 2 quotes." in told.summary.notes
    assert "The chapter gives no examples." in told.summary.notes
    assert told.coverage.audit.passed


def test_a_chapter_without_a_word_is_refused() -> None:
    with pytest.raises(RequestRejected, match="Chapter 1 has no word in it"):
        digest(chapter(" … \n —"))


async def test_time_that_is_over_is_said() -> None:
    with pytest.raises(ProviderTimeout, match="To sum up chapter 1 took longer"):
        await LocalSummarizer().summarize(LONG[0], timeout=-1)


def test_without_the_model_the_counts_hold_too() -> None:
    told = asyncio.run(LocalSummarizer(Lexical()).summarize(LONG[0], timeout=120))

    assert 300 <= told.summary.summary_words <= 500
    assert told.coverage.audit.problems == ()


def test_code_and_tables_are_not_summed_up() -> None:
    code = "\n\n```\nfor x in range(10): print(x)\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"

    told = digest(chapter(code.join(["", *LONG[0].text.split("\n\n")]), LONG[0].title)).summary

    assert "print" not in told.text
    assert "|" not in told.text


WORDS = st.sampled_from(["sal", "vento", "água", "deve", "tanque", "3", "por", "exemplo", "a", "—"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=120).map(" ".join)


@given(st.lists(SENTENCES, min_size=1, max_size=60), st.sampled_from([". ", "\n", "; ", "\n\n"]))
@settings(max_examples=60, deadline=None)
def test_whatever_the_text_the_audit_agrees_with_the_counts(parts: list[str], between: str) -> None:
    text = between.join(parts)
    if not any(map(str.isalnum, text)):
        return

    told = asyncio.run(LocalSummarizer(Lexical()).summarize(chapter(text), timeout=120))

    spoken = sum(len(sentence.split()) for sentence in sentences(text))
    if spoken >= 300:
        assert 300 <= told.summary.summary_words <= 500
        assert 2 <= len(told.summary.quotes) <= 4
    else:
        assert told.summary.summary_words == spoken
    assert all(quote in " ".join(text.split()) for quote in told.summary.quotes)


# — chunks, sentences, languages —


def test_chunks_have_a_thousand_words_and_repeat_a_hundred() -> None:
    text = " ".join(f"w{number}" for number in range(2_500))

    chunks = chunks_of(chapter(text))

    assert [(chunk.start_word, chunk.end_word) for chunk in chunks] == [(0, 1000), (900, 1900), (1800, 2500)]
    assert chunks[0].text.split()[-100:] == chunks[1].text.split()[:100]
    assert [chunk.id for chunk in chunks] == ["1-1", "1-2", "1-3"]


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
