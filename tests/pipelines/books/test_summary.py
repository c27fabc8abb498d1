"""A summary says what the chapter says, can be read alone, and cannot claim to cover what it does not."""

from __future__ import annotations

import itertools
import random
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retoma.bench.evaluation import labelled
from retoma.pipelines.books.ports import Chapter, Digest, Quotation
from retoma.pipelines.books.text import audit, chunks, coverage, executive, markers, plan, recall
from retoma.pipelines.books.text.discourse import Standing
from retoma.pipelines.books.text.sentences import flat, is_readable, owners, sentences_of
from retoma.pipelines.books.text.summary import Source, Written, digest, summarise, write
from retoma.providers import Extraction, Page
from retoma.providers.local.encoder import Lexical

sys.path.insert(0, str(Path(__file__).parent))

import made_books

pytestmark = pytest.mark.timeout(600)


def whole(text: str, title: str = "Um capítulo") -> Chapter:
    return Chapter(number="1", title=title, text=text, pages=(1,), page_starts=((0, 1),))


def long_chapter(seed: int, words: int = 2_600) -> Chapter:
    writer = made_books.Writer(seed)
    pages = made_books.printed(["Capítulo 1", *writer.paragraphs(words), "Capítulo 2", *writer.paragraphs(words)])
    return plan.detect(Extraction(pages=pages, reader="text")).chapters[0]


def source_of(chapter: Chapter) -> Source:
    return Source.of(chapter, Lexical())


def read_all(source: Source) -> dict[int, str]:
    return {chunk.index: chunk.text for chunk in source.chunks}


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    return [source_of(long_chapter(seed)) for seed in range(5)]


@pytest.fixture(scope="module")
def written(sources: list[Source]) -> list[Written]:
    return [write(each) for each in sources]


# — chunks —


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5_000))
def test_every_word_is_in_a_chunk_and_neighbours_share_a_hundred(count: int) -> None:
    text = " ".join(f"p{n}" for n in range(count))

    found = chunks.cut(text)

    assert {word for chunk in found for word in chunk.text.split()} == set(text.split())
    assert all(chunk.text == text[chunk.start : chunk.end] for chunk in found)
    assert all(chunk.end_word - chunk.start_word <= 1_000 for chunk in found)
    for one, other in itertools.pairwise(found):
        assert one.text.split()[-100:] == other.text.split()[:100]


# — the summary —


def test_the_counts_are_those_of_the_contract(sources: list[Source], written: list[Written]) -> None:
    for source, each in zip(sources, written, strict=True):
        told = each.summary
        assert 300 <= len(told.text.split()) <= 500
        assert 5 <= len(told.key_points) <= 8
        assert 2 <= len(told.quotations) <= 4
        assert 2 <= len(told.examples) <= 5
        assert 1 <= sum(item.critical for item in each.items) <= 12
        assert any(not item.critical for item in each.items)
        assert told.shortfalls == {}
        assert digest(source, each, read_all(source)).passed


def test_all_that_is_told_stands_in_the_chapter_and_quotations_on_their_page(
    sources: list[Source], written: list[Written]
) -> None:
    for source, each in zip(sources, written, strict=True):
        text = flat(source.chapter.text)
        told = each.summary
        assert all(said in text for said in (*told.key_points, *told.examples))
        assert len(source.chapter.pages) > 3
        for quotation in told.quotations:
            assert quotation.text in text
            assert quotation.page in source.chapter.pages


REAL = Path(__file__).parent / "works" / "o_alienista.txt"


def real_chapters() -> list[Chapter]:
    """Chapters that people wrote, with dialogue and pronouns, in both languages."""
    texts = (REAL.read_text(encoding="utf-8"), labelled.book("pt"), labelled.book("en"))
    found = [plan.detect(Extraction(pages=(Page(number=1, text=text),), reader="text")).chapters for text in texts]
    return [each for chapters in found for each in chapters if each.words > 400]


@pytest.mark.parametrize("chapter", real_chapters(), ids=lambda each: each.title or each.number)
def test_a_sentence_of_a_summary_is_read_alone_or_behind_the_one_it_leans_on(chapter: Chapter) -> None:
    source = source_of(chapter)
    places = {each.text: place for place, each in enumerate(source.sentences)}

    told = write(source).summary

    taken = [places[each.text] for each in sentences_of(told.text)]
    assert taken == sorted(set(taken)), "they stand in the order of the chapter"
    for before, place in itertools.pairwise([-1, *taken]):
        assert source.sentences[place].readable or (
            source.sentences[place].standing is Standing.LEANS and place == before + 1
        ), source.sentences[place].text
    assert sum(place == before + 1 for before, place in itertools.pairwise(taken)) >= len(taken) // 3, "passages"
    for said in told.key_points:
        assert source.sentences[places[said]].readable, said


@pytest.mark.parametrize(
    "sentence",
    [
        "Ele olhou para a janela e não disse nada a ninguém.",
        "Antes disso, porém, digamos os motivos de escrever.",
        "Na principal destas, a pintura do teto é quase igual.",
        "É o que vais entender lendo as páginas que seguem.",
        "Isso mudou tudo o que se sabia da cidade inteira.",
        "Mas a cidade não quis saber do que tinha acontecido.",
        "They left the house before the others had come back.",
        "Dito isso, meteu-se em Itaguaí para estudar a ciência.",
        "Dali foi à Câmara, onde os vereadores debatiam a proposta.",
        "Um dos tios dele, caçador de pacas, admirou-se da escolha.",
        "Era na Rua Nova, a mais bela rua da vila inteira.",
        "Dividiu-os primeiramente em duas classes, os furiosos e os mansos.",
        "Conteve-se, entretanto, e limitou-se a agradecer ao marido.",
        "Porque este tópico deve ficar claramente definido desde o começo.",
        "O outro andava sempre à roda das salas ou do pátio.",
        "Um, por exemplo, um rapaz bronco que fazia discursos.",
        "Quanto ao gesto, era o mesmo do dia do casamento.",
        "Mal dormia e mal comia, de tanto ler textos antigos.",
        "Note-se que a viúva tinha pensado nisso mesmo antes.",
        "A Casa Verde, disse o médico, é agora uma espécie de mundo.",
        "The other walked about the yard all day and all night.",
        "Meanwhile the town had forgotten the whole of the affair.",
        "Above all, she wanted her brother to come back home.",
        "12. Cf. o volume anterior, onde se trata da mesma coisa.",
        "CAPÍTULO SEGUNDO DA PRIMEIRA PARTE DO LIVRO INTEIRO.",
        "continua a frase que começou na página de antes, aqui.",
        "A frase que não termina porque a página acabou e",
        "Veja mais em https://exemplo.org sobre a obra do autor.",
    ],
)
def test_what_leans_on_something_else_is_not_taken(sentence: str) -> None:
    assert not is_readable(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Naquele ano a ponte mudou, porque Lívia deixou a igreja para trás.",
        "O médico deve examinar seus doentes todos os dias do ano.",
        "É proibido entrar na salina depois do meio-dia sem chapéu.",
        "Entende-se por salmoura a água que já passou pelos tanques.",
        "Enganava-se o digno magistrado; o médico arranjou tudo em um mês.",
        "Depois de longos estudos, a Câmara votou um imposto novo.",
        "Era uma vez uma salina que ficava longe do mar.",
        "The builder raised his hand and the whole crowd fell silent.",
        "For example, a company of soldiers crossed the bridge in step.",
        "It is called resonance, and it needs no great force.",
        "When Margaret closed the door, she heard the rain again.",
    ],
)
def test_what_says_of_whom_it_speaks_stands_alone(sentence: str) -> None:
    assert is_readable(sentence)


@pytest.mark.parametrize(
    "text",
    [
        "O médico entrou na sala grande da casa.\n\n— Vou sair hoje mesmo. {said}\n\nA vila inteira soube da viagem.",
        (
            "O médico entrou na sala grande da casa, e ali\nficou.\n"
            "— Vou sair hoje mesmo, antes da chuva da tarde.\n{said}\nAdeus a todos.\n"
            "A vila inteira soube da viagem no mesmo dia e\nninguém quis acreditar no que se dizia dela."
        ),
        "O médico entrou na sala grande. “Vou sair hoje mesmo. {said} Adeus.” A vila inteira soube da viagem.",
    ],
    ids=["dash", "dash on wrapped lines", "quotes"],
)
def test_what_somebody_says_is_not_told_as_if_the_book_said_it(text: str) -> None:
    said = "O escriturário prestou contas da casa ainda ontem."

    found = {each.text: each.standing for each in sentences_of(text.format(said=said))}

    assert found[said] is Standing.SPOKEN
    assert next(standing for told, standing in found.items() if told.startswith("A vila")) is Standing.ALONE


def test_what_somebody_says_may_be_quoted_and_no_key_point_is_said_twice() -> None:
    chapter = next(each for each in real_chapters() if each.title == "UMA TEORIA NOVA")
    source = source_of(chapter)
    standing = {each.text: each.standing for each in source.sentences}

    told = write(source).summary

    quoted = [each.text for each in told.quotations]
    assert {standing[each] for each in quoted} <= {Standing.ALONE, Standing.SPOKEN}
    assert Standing.SPOKEN in {standing[each] for each in quoted}
    assert not set(quoted) & set(told.key_points)


def test_a_chapter_that_is_all_dialogue_is_summed_up_too() -> None:
    lines = "\n\n".join(f"— A comporta número {n} deve ficar fechada até a chuva passar de vez." for n in range(60))
    source = source_of(whole(lines))

    told = write(source)

    assert 300 <= len(told.summary.text.split()) <= 500
    assert digest(source, told, read_all(source)).passed
    assert any(item.critical for item in told.items)


@pytest.mark.parametrize("chapter", real_chapters(), ids=lambda each: each.title or each.number)
def test_paragraphs_of_a_summary_end_where_the_chapter_goes_on_elsewhere(chapter: Chapter) -> None:
    source = source_of(chapter)
    places = {each.text: place for place, each in enumerate(source.sentences)}

    told = write(source).summary.text.split("\n\n")

    assert len(told) > 1
    for one, other in itertools.pairwise(told):
        last, first = places[sentences_of(one)[-1].text], places[sentences_of(other)[0].text]
        assert first > last + 1 or len(one.split()) >= 150


def test_examples_are_cases_that_are_named_or_counted_and_nobody_s_age() -> None:
    said = (
        "A salina de Aveiro, a exemplo de outras, fechou no inverno.",
        "Um vizinho vendeu quarenta toneladas e perdeu o comprador.",
    )
    text = "O porto crescia sem parar naquele tempo. Anselmo tinha quarenta anos quando o porto fechou. " * 20
    source = source_of(whole(f"{text} {' '.join(said)}"))

    assert tuple(write(source).summary.examples) == said


def test_the_same_chapter_always_gives_the_same(sources: list[Source], written: list[Written]) -> None:
    assert write(source_of(sources[0].chapter)) == written[0]


def test_a_short_chapter_is_given_whole_and_says_so() -> None:
    chapter = plan.detect(Extraction(pages=(Page(number=1, text=labelled.book("pt")),), reader="text")).chapters[2]
    source = source_of(chapter)

    told = write(source)

    assert told.summary.text.split() == chapter.text.split()
    assert "112 palavras" in told.summary.shortfalls["resumo"]
    assert digest(source, told, read_all(source)).passed


def test_a_chapter_without_examples_says_so_and_is_valid() -> None:
    text = "A cidade de Ilhéus ficava longe do mar naquele tempo. O porto de Santos crescia sem parar. " * 30
    source = source_of(whole(text))

    told = write(source)

    assert told.summary.examples == ()
    assert told.summary.shortfalls["exemplos"] == "O capítulo não traz exemplos."
    assert not [each for each in digest(source, told, read_all(source)).audit.errors if each.code == "examples"]


def test_a_chapter_without_sentences_is_still_summed_up() -> None:
    source = source_of(whole("\n".join(f"verso número {n} sem ponto\n" for n in range(200))))

    told = write(source)

    assert 300 <= len(told.summary.text.split()) <= 500


def test_code_and_tables_are_not_summed_up(sources: list[Source]) -> None:
    code = "\n\n```\nfor x in range(10): print(x)\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"

    told = write(source_of(whole(code.join(["", *sources[0].chapter.text.split("\n\n")])))).summary

    assert "print" not in told.text
    assert "|" not in told.text


@pytest.mark.parametrize("seed", range(4))
def test_ids_are_the_same_on_every_run_and_differ_between_chapters(seed: int) -> None:
    chapter = long_chapter(seed, 400)
    one, other = source_of(chapter).items, source_of(replace(chapter, number="IX")).items

    assert [each.id for each in one] == [each.id for each in source_of(chapter).items]
    assert len({each.id for each in (*one, *other)}) == len(one) + len(other)
    assert all(each.id == recall.identity(chapter, f"  {each.text.upper()} ") for each in one)
    assert all(each.chunks for each in one)


# — coverage that cannot be overstated —


def test_every_sentence_belongs_to_one_chunk(sources: list[Source]) -> None:
    for source in sources:
        assert 0 not in owners(source.sentences, source.chunks)
        assert len(source.chunks) > 2


def test_a_chunk_that_was_cut_short_was_not_read(sources: list[Source]) -> None:
    source = sources[0]
    read = read_all(source) | {2: source.chunks[1].text[:2_000]}

    told = coverage.measure(source.chapter, read)

    assert (told.processed_chunks, told.total_chunks) == (len(source.chunks) - 1, len(source.chunks))
    assert told.read_sentences < told.sentences
    assert told.unread == ((source.chunks[0].end, source.chunks[2].start),)
    assert told.percentage < 100


def planted(source: Source, each: Written, draw: random.Random) -> tuple[str, Digest]:
    """A digest from which something was taken, and what."""
    read, told = read_all(source), each
    what = draw.choice(
        ["unread", "cut short", "mark", "sentence", "chunk", "quotation", "page", "invented", "key points"]
    )
    critical = draw.choice([item for item in each.items if item.critical])
    if what == "unread":
        del read[draw.choice(sorted(read))]
    elif what == "cut short":
        index = draw.choice(sorted(read))
        read[index] = read[index][: draw.randrange(len(read[index]))]
    elif what == "mark":
        told = replace(each, marked=each.marked.replace(f" {markers.mark(critical)}", ""))
    elif what == "sentence":
        marked = each.marked.replace(f"{critical.text} {markers.mark(critical)}", "")
        told = replace(each, marked=marked, summary=replace(each.summary, text=markers.unmarked(marked)))
    elif what == "chunk":
        told = replace(each, marked=each.marked.replace(markers.mark(critical), f"⟦{critical.id}:99⟧"))
    elif what == "invented":
        told = replace(each, marked=each.marked + " ⟦1-000000000000:1⟧")
    elif what == "key points":
        told = replace(each, summary=replace(each.summary, key_points=each.summary.key_points[:4]))
    else:
        place = draw.randrange(len(each.summary.quotations))
        quoted = list(each.summary.quotations)
        words = quoted[place].text.split()
        words[draw.randrange(len(words))] = "inventado"
        page = max(source.chapter.pages) + 7
        changed = Quotation(text=" ".join(words), page=quoted[place].page)
        quoted[place] = changed if what == "quotation" else replace(quoted[place], page=page)
        told = replace(each, summary=replace(each.summary, quotations=tuple(quoted)))
    return what, digest(source, told, read)


def test_a_hundred_planted_omissions_all_turn_pass_into_fail(sources: list[Source], written: list[Written]) -> None:
    draw = random.Random(7)
    kept = [digest(source, each, read_all(source)).passed for source, each in zip(sources, written, strict=True)]
    kinds, passed = set(), []
    for _ in range(100):
        place = draw.randrange(len(sources))
        what, told = planted(sources[place], written[place], draw)
        kinds.add(what)
        if told.passed:
            passed.append(what)

    assert all(kept)
    assert len(kinds) == 9
    assert passed == []


def test_a_mark_at_words_that_say_something_else_covers_nothing(sources: list[Source], written: list[Written]) -> None:
    source, each = sources[0], written[0]
    item = next(item for item in each.items if item.critical)
    marked = each.marked.replace(f"{item.text} {markers.mark(item)}", f"Foi bom. {markers.mark(item)}")
    told = replace(each, marked=marked, summary=replace(each.summary, text=markers.unmarked(marked)))

    found = digest(source, told, read_all(source))

    assert not found.passed
    assert not next(one for one in found.coverage.items if one.id == item.id).covered


def test_more_attempts_than_allowed_fail(sources: list[Source], written: list[Written]) -> None:
    source, each = sources[0], written[0]

    assert digest(source, each, read_all(source), regenerations=5, addendums=2).passed
    assert not digest(source, each, read_all(source), regenerations=6).passed
    assert not digest(source, each, read_all(source), addendums=3).passed


@pytest.mark.parametrize("number", ["I", "Primeiro", "Anexo A", "1 (2)", "Introdução"])
def test_marks_take_every_number_of_a_chapter(number: str) -> None:
    source = source_of(replace(long_chapter(3, 700), number=number))

    assert digest(source, write(source), read_all(source)).passed


# — the whole book —


def test_every_chapter_has_a_say_in_the_executive_summary(written: list[Written]) -> None:
    chapters = [(str(n), f"Título {n}", each.summary) for n, each in enumerate(written, start=1)]

    entries = executive.executive(chapters)
    text = executive.as_text(entries)

    assert [entry.number for entry in entries] == ["1", "2", "3", "4", "5"]
    assert all(entry.points for entry in entries)
    assert len(re.sub(r"(?m)^\d+ – Título \d+:", "", text).split()) <= 500


def test_a_summary_is_one_call() -> None:
    told = summarise(whole(labelled.book("pt")), encoder=Lexical())

    assert audit.covered(told.items, told.marked)
