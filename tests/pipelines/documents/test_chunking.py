"""A text is cut where its author cut it, small enough for a model, and every piece knows its pages."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shelf import LEASE

from retoma.pipelines.documents.chunking import MOST_TOKENS, OVERLAP_TOKENS, cut, read_heading, tokens
from retoma.providers import Extraction, Page


def read(*pages: str) -> Extraction:
    return Extraction(pages=[Page(number=place, text=text) for place, text in enumerate(pages, start=1)], reader="test")


class TestHeadings:
    @pytest.mark.parametrize(
        ("line", "type", "title"),
        [
            ("CLÁUSULA PRIMEIRA – DO OBJETO", "cláusula", "CLÁUSULA PRIMEIRA – DO OBJETO"),
            ("Cláusula 3ª - Do preço", "cláusula", "Cláusula 3ª - Do preço"),
            ("CLÁUSULA DÉCIMA SEGUNDA", "cláusula", "CLÁUSULA DÉCIMA SEGUNDA"),
            ("CLÁUSULA ÚNICA", "cláusula", "CLÁUSULA ÚNICA"),
            ("**Cláusula 4.2** Multa", "cláusula", "Cláusula 4.2 Multa"),
            ("Art. 5º Todos são iguais perante a lei.", "artigo", "Art. 5º"),
            ("Art. 121-A. Matar alguém", "artigo", "Art. 121-A. Matar alguém"),
            ("ARTIGO 12 – DISPOSIÇÕES FINAIS", "artigo", "ARTIGO 12 – DISPOSIÇÕES FINAIS"),
            ("CAPÍTULO II", "capítulo", "CAPÍTULO II"),
            ("TÍTULO I: Dos princípios", "capítulo", "TÍTULO I: Dos princípios"),
            ("Seção IV – Das partes", "seção", "Seção IV – Das partes"),
            ("2. Definições", "seção", "2. Definições"),
            ("## Introdução", "seção", "Introdução"),
            ("Clause 4. Payment", "cláusula", "Clause 4. Payment"),
            ("Article 7 Term", "artigo", "Article 7 Term"),
            ("Section 2: Definitions", "seção", "Section 2: Definitions"),
        ],
    )
    def test_a_heading_is_known_with_its_type(self, line: str, type: str, title: str) -> None:
        assert read_heading(line) == (type, title)

    @pytest.mark.parametrize(
        "line",
        [
            "cláusula terceira deste contrato, e será paga",
            "Cláusula terceira deste contrato",
            "Art. 5º da Constituição Federal",
            "Art. 7º, inciso II, e o seu parágrafo",
            "Articulado de seguro",
            "Artigos de papelaria",
            "Parte 2 do valor será paga em maio",
            "§ 1º O prazo é de dez dias.",
            "",
        ],
    )
    def test_a_sentence_that_mentions_one_is_no_heading(self, line: str) -> None:
        assert read_heading(line) is None


class TestCut:
    def test_a_contract_is_cut_at_its_clauses(self) -> None:
        chunks = cut(read(LEASE))

        assert [(chunk.section_type, chunk.title) for chunk in chunks] == [
            ("texto_geral", None),
            ("cláusula", "CLÁUSULA PRIMEIRA – DO OBJETO"),
            ("cláusula", "CLÁUSULA SEGUNDA – DA RESCISÃO"),
        ]
        assert chunks[2].content.endswith("trinta dias.")
        assert [chunk.place for chunk in chunks] == [0, 1, 2]

    def test_a_heading_without_a_text_of_its_own_goes_with_what_follows(self) -> None:
        law = "CAPÍTULO I\nDAS DISPOSIÇÕES GERAIS\nArt. 1º Fica criado o fundo.\nArt. 2º O fundo é público.\n"

        chunks = cut(read(law))

        assert [(chunk.section_type, chunk.title) for chunk in chunks] == [
            ("artigo", "CAPÍTULO I › Art. 1º"),
            ("artigo", "Art. 2º"),
        ]
        assert chunks[0].content.startswith("CAPÍTULO I\nDAS DISPOSIÇÕES GERAIS\nArt. 1º")

    def test_a_chunk_says_on_which_pages_it_stands(self) -> None:
        chunks = cut(read("Preâmbulo.", "Cláusula 1ª\nComeça aqui", "e acaba aqui.\nCláusula 2ª\nFim."))

        assert [(chunk.page_start, chunk.page_end) for chunk in chunks] == [(1, 1), (2, 3), (3, 3)]

    def test_a_long_section_is_cut_and_its_pieces_overlap(self) -> None:
        words = [f"palavra{number}" for number in range(3000)]
        text = "CLÁUSULA PRIMEIRA\n" + " ".join(words)

        chunks = cut(read(text))

        assert len(chunks) > 1
        for chunk in chunks:
            assert (chunk.section_type, chunk.title) == ("cláusula", "CLÁUSULA PRIMEIRA")
            assert chunk.token_count <= MOST_TOKENS
        for before, after in pairwise(chunks):
            shared = after.content[: OVERLAP_TOKENS * 3 - 20]
            assert shared in before.content
        found = {word for chunk in chunks for word in chunk.content.split()}
        assert found >= set(words)

    def test_the_paragraphs_of_a_long_article_begin_pieces_of_their_own(self) -> None:
        body = "texto " * 700
        law = f"Art. 1º {body}\n§ 1º {body}\n§ 2º {body}\n"

        chunks = cut(read(law))

        assert [(chunk.section_type, chunk.content[:4]) for chunk in chunks] == [
            ("artigo", "Art."), ("parágrafo", "§ 1º"), ("parágrafo", "§ 2º"),
        ]  # fmt: skip

    def test_what_has_no_words_is_no_chunk(self) -> None:
        assert cut(read("", " \n—\n", "…")) == []

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.text(alphabet="aé. \n§º1CLÁUSULAPRIMEIRA", max_size=4000), min_size=1, max_size=4))
    def test_every_word_is_kept_no_piece_is_too_long_and_pages_are_in_order(self, texts: list[str]) -> None:
        texts = [text * 4 for text in texts]

        chunks = cut(read(*texts))

        kept = "".join("".join(chunk.content.split()) for chunk in chunks)
        assert all(chunk.token_count == tokens(chunk.content) <= MOST_TOKENS for chunk in chunks)
        assert all(1 <= chunk.page_start <= chunk.page_end <= len(texts) for chunk in chunks)
        if len(chunks) == 1:  # no overlap: the very text, but for blanks at its ends
            whole = "".join("".join(text.split()) for text in texts)
            assert kept in whole
        starts = [chunk.page_start for chunk in chunks]
        assert starts == sorted(starts)
