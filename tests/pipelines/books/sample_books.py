"""Books and checkpoints that tests make, and an editor whose every chapter is counted."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retoma.pipelines.books.compose import sealed
from retoma.pipelines.books.ports import (
    Ask,
    Audit,
    Chapter,
    ChapterPlan,
    Coverage,
    Digest,
    Quotation,
    RecallItem,
    Summary,
)
from retoma.pipelines.books.remarks import Remark
from retoma.pipelines.books.verdicts import hash_of
from retoma.providers import Extraction, Message, Page, Prompt

SESSION = "3f0c6a52-6a39-4b53-9a53-0f6f3c2b8a11"
INPUT, TEXT = "a" * 64, "b" * 64
CONFIGURATION = {"provider": "test", "model": "one", "parameters": {"version": 1}}


def original(
    number: str = "1", *, session: str = SESSION, minute: int = 30, done: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A checkpoint as the original system writes it: nothing after ``metadata``, times without a zone."""
    processed = [*done, number]
    return {
        "session_id": session,
        "chapter_number": number,
        "timestamp_checkpoint": f"2026-01-21T10:{minute:02}:00",
        "chapter_summary": {
            "numero": number,
            "titulo": f"Título do capítulo {number}",
            "palavras": 5000,
            "palavras_resumo": 400,
            "paginas": [1, 2, 3],
            "resumo": " ".join(f"palavra{each}" for each in range(400)),
            "pontos_chave": [f"Ponto {each}" for each in range(1, 6)],
            "citacoes": ["Citação um.", "Citação dois."],
            "exemplos": ["Exemplo um.", "Exemplo dois."],
        },
        "coverage_report": {
            "chapter_number": number,
            "chapter_title": f"Título do capítulo {number}",
            "total_chunks": 10,
            "processed_chunks": 10,
            "chunk_coverage_percentage": 100.0,
            "recall_set": {
                "critical_items_total": 3,
                "critical_items_covered": 3,
                "supporting_items_total": 4,
                "missing_critical_item_ids": [],
            },
            "audit_result": {
                "passed": True,
                "regeneration_count": 1,
                "addendum_count": 0,
                "missing_markers": [],
                "invalid_chunks": [],
            },
        },
        "metadata": {
            "session_id": session,
            "timestamp_inicio": "2026-01-21T10:00:00",
            "timestamp_ultimo_checkpoint": f"2026-01-21T10:{minute:02}:00",
            "capitulos_processados": processed,
            "chunks_processados_por_capitulo": dict.fromkeys(processed, 10),
            "total_chunks_por_capitulo": dict.fromkeys(processed, 10),
        },
    }


def ours(number: str = "1", **more: Any) -> dict[str, Any]:
    """The same with what Retoma adds, and its checksum."""
    value = original(number, **more)
    value["retoma"] = {
        "version": 1,
        "checksum": "0" * 64,
        "input_sha256": INPUT,
        "chapter_sha256": TEXT,
        "configuration": copy.deepcopy(CONFIGURATION),
        "configuration_hash": hash_of(CONFIGURATION),
        "passed": True,
        "shortfalls": {},
        "quotations": [{"text": "Citação um.", "page": 2}, {"text": "Citação dois.", "page": None}],
        "items": [{"id": "1-a", "text": "Item.", "critical": True, "reason": "rule", "chunks": [1], "covered": True}],
        "sentences": 80,
        "read_sentences": 80,
        "unread": [],
        "errors": [],
    }
    return json.loads(sealed(value))


def body_of(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def book_text(chapters: int = 3, *, words: int = 400, title: str = "Livro") -> str:
    """A book in Markdown."""
    parts = [f"# {title}"]
    for number in range(1, chapters + 1):
        parts.append(f"## Capítulo {number}\n")
        parts.append(" ".join(f"c{number}w{word}" for word in range(words)) + ".")
    return "\n\n".join(parts) + "\n"


class CountingEditor:
    """Finds chapters by their Markdown headings and sums them up in a fixed way; what it was asked is counted."""

    provider = "test"
    bills = False

    def __init__(self, model: str = "one") -> None:
        self.model = model
        self.parameters: Mapping[str, Any] = {"version": 1}
        self.summarised: list[str] = []
        self.fails: dict[str, BaseException] = {}
        self.short: set[str] = set()
        self.doubts: tuple[Remark, ...] = ()

    def detect(self, document: Extraction) -> ChapterPlan:
        found = []
        for page in document.pages:
            for part in page.text.split("## ")[1:]:
                heading, _, text = part.partition("\n")
                number = heading.strip().rpartition(" ")[2]
                found.append(Chapter(number=number, title=heading.strip(), text=text.strip(), pages=(page.number,)))
        chapters = tuple(found) or (Chapter(number="1", title="Tudo", text=document.text, pages=(1,)),)
        return ChapterPlan(chapters=chapters, doubts=self.doubts, detector="test")

    async def summarise(self, chapter: Chapter, *, ask: Ask | None, **_: object) -> Digest:
        self.summarised.append(chapter.number)
        if chapter.number in self.fails:
            raise self.fails[chapter.number]
        said = chapter.text
        if ask is not None:
            said = await ask("summary", Prompt(messages=[Message(role="user", content=chapter.text)]), str)
        return digest(chapter, said, points=2 if chapter.number in self.short else 5)


def digest(chapter: Chapter, said: str, *, points: int = 5) -> Digest:
    words = said.split() or ["nada"]
    text = " ".join((words * 400)[:350])
    return Digest(
        summary=Summary(
            text=text,
            key_points=tuple(f"Ponto {each} de {chapter.number}" for each in range(points)),
            quotations=(Quotation(text=words[0], page=1), Quotation(text=words[-1], page=None)),
            examples=(),
        ),
        coverage=Coverage(
            total_chunks=1,
            processed_chunks=1,
            sentences=1,
            read_sentences=1,
            items=(
                RecallItem(id=f"{chapter.number}-1", text="x", critical=True, reason="rule", chunks=(1,), covered=True),
            ),
        ),
        audit=Audit(passed=True),
    )


class TextExtractor:
    """Reads text files as one page, and counts."""

    provider = "test"

    def __init__(self) -> None:
        self.read = 0

    async def extract(self, file: Path, **_: object) -> Extraction:
        self.read += 1
        return Extraction(pages=[Page(number=1, text=file.read_text(encoding="utf-8"))], reader="test")
