"""The checkpoint of a chapter in the shape of the safe-resume contract, typed, with every rule.

The field names are those of the contract, in Portuguese where it has them so. Files of the original system end after
``metadata``; ours say more under ``retoma``: a checksum over all of it, the hash of the input, the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

SHORT = 300
"""Words: a chapter with fewer is given whole, and cannot have what the contract asks of a summary."""

SUMMARY_WORDS, KEY_POINTS, QUOTATIONS, EXAMPLES = (300, 500), (5, 8), (2, 4), (2, 5)
MOST_REGENERATIONS, MOST_ADDENDUMS, MOST_CRITICAL = 5, 2, 12
LIMITED = ("resumo", "pontos_chave", "citacoes", "exemplos")

NO_EXAMPLES = {"pt": "O capítulo não traz exemplos.", "en": "The chapter gives no examples."}
"""What stands in ``exemplos`` when there are none: the contract wants the list filled, and nothing may be invented.
The shortfall of the same name says that the sentence is no example."""

_MOST = 10_000_000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]")
_MARK = re.compile(r"\[[^\[\]]{0,400}\]")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_TOLERATED = 10  # words; programs count them in more than one way
_SLACK = 1e-6 + 0.05  # percentages are rounded to a tenth by some

Text = Annotated[str, StringConstraints(strip_whitespace=False, min_length=1, max_length=200_000)]


def _said(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty", "it is blank")
    if _NO_TEXT.search(text):
        raise PydanticCustomError("out_of_limits", "it has a character that no text has")
    return text


def _timed(time: object) -> datetime:
    """The original system writes times without a zone; they are read as UTC."""
    if not isinstance(time, str):
        raise PydanticCustomError("wrong_type", "it is no text")
    if not time.strip():
        raise PydanticCustomError("empty", "it is blank")
    try:
        # Python reads dates without a time, too, and other ways of writing them.
        read = datetime.fromisoformat(time if _DATE.match(time) else "")
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except ValueError:
        raise PydanticCustomError("wrong_type", "it is no time in the ISO format") from None
    except OverflowError:
        raise PydanticCustomError("out_of_limits", "it is before or after all times") from None


Said = Annotated[Text, AfterValidator(_said)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_said)]
Time = Annotated[datetime, PlainValidator(_timed), PlainSerializer(datetime.isoformat, str, when_used="json")]
Count = Annotated[int, Field(ge=0, le=_MOST)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    # What the contract does not name is passed over, so that a later version of a writer can be read.
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class ChapterSummary(_Strict):
    """What was made of the chapter."""

    numero: Name
    titulo: Said
    palavras: Annotated[int, Field(ge=1, le=_MOST)]
    palavras_resumo: Annotated[int, Field(ge=1, le=SUMMARY_WORDS[1])]
    paginas: Annotated[list[Annotated[int, Field(ge=1, le=_MOST)]], Field(max_length=100_000)]
    resumo: Said
    pontos_chave: Annotated[list[Said], Field(min_length=1, max_length=KEY_POINTS[1])]
    citacoes: Annotated[list[Said], Field(min_length=1, max_length=QUOTATIONS[1])]
    exemplos: Annotated[list[Said], Field(min_length=1, max_length=EXAMPLES[1])]

    @model_validator(mode="after")
    def _counted(self) -> Self:
        whole, bare = len(self.resumo.split()), len(_MARK.sub(" ", self.resumo).split())
        tolerated = max(_TOLERATED, self.palavras_resumo // 10)
        if min(abs(whole - self.palavras_resumo), abs(bare - self.palavras_resumo)) > tolerated:
            raise PydanticCustomError(
                "out_of_limits",
                "palavras_resumo says {said} words and resumo has {found}",
                {"said": self.palavras_resumo, "found": whole},
            )
        return self

    def shortfalls(self) -> dict[str, str]:
        """Which fields have less than the contract asks, and how much that is."""
        found = {
            "resumo": (self.palavras_resumo, SUMMARY_WORDS),
            "pontos_chave": (len(self.pontos_chave), KEY_POINTS),
            "citacoes": (len(self.citacoes), QUOTATIONS),
            "exemplos": (len(self.exemplos), EXAMPLES),
        }
        return {
            name: f"{name} has {has}, not {least} to {most}"
            for name, (has, (least, most)) in found.items()
            if has < least
        }


class RecallSetData(_Strict):
    """What a summary must say, counted."""

    critical_items_total: Annotated[int, Field(ge=0, le=MOST_CRITICAL)]
    critical_items_covered: Count
    supporting_items_total: Count
    missing_critical_item_ids: Annotated[list[Said], Field(max_length=MOST_CRITICAL)]

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        missing = len(set(self.missing_critical_item_ids))
        if missing != len(self.missing_critical_item_ids):
            raise PydanticCustomError("out_of_limits", "an item is missing twice")
        if self.critical_items_covered + missing != self.critical_items_total:
            raise PydanticCustomError(
                "out_of_limits",
                "{covered} covered and {missing} missing are not {total} critical items",
                {"covered": self.critical_items_covered, "missing": missing, "total": self.critical_items_total},
            )
        return self


class InvalidChunks(_Strict):
    """An item, and chunks named with it that are not its own."""

    item_id: Said
    chunks: list[int]


class AuditResultData(_Strict):
    """What the check of the summary found."""

    passed: bool
    regeneration_count: Annotated[int, Field(ge=0, le=MOST_REGENERATIONS)]
    addendum_count: Annotated[int, Field(ge=0, le=MOST_ADDENDUMS)]
    missing_markers: Annotated[list[Said], Field(max_length=1000)]
    invalid_chunks: Annotated[list[InvalidChunks], Field(max_length=1000)]

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.passed and (self.missing_markers or self.invalid_chunks):
            raise PydanticCustomError("out_of_limits", "an audit with faults cannot have passed")
        return self


class CoverageReport(_Strict):
    """How much of the chapter was read."""

    chapter_number: Name
    chapter_title: Said
    total_chunks: Annotated[int, Field(ge=1, le=_MOST)]
    processed_chunks: Count
    chunk_coverage_percentage: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
    recall_set: RecallSetData
    audit_result: AuditResultData

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.processed_chunks > self.total_chunks:
            raise PydanticCustomError("out_of_limits", "more chunks were processed than there are")
        share = 100.0 * self.processed_chunks / self.total_chunks
        if abs(share - self.chunk_coverage_percentage) > _SLACK:
            raise PydanticCustomError(
                "out_of_limits",
                "{done} of {total} chunks are not {said} %",
                {"done": self.processed_chunks, "total": self.total_chunks, "said": self.chunk_coverage_percentage},
            )
        return self


class Metadata(_Strict):
    """How far the run was when the checkpoint was saved."""

    session_id: Name
    timestamp_inicio: Time
    timestamp_ultimo_checkpoint: Time
    capitulos_processados: Annotated[list[Name], Field(min_length=1, max_length=100_000)]
    chunks_processados_por_capitulo: dict[Name, Count]
    total_chunks_por_capitulo: dict[Name, Count]


class Quoted(_Strict):
    """A quotation and its page."""

    text: Said
    page: Count | None


class Item(_Strict):
    """Something that the summary should say, or must."""

    id: Said
    text: Said
    critical: bool
    reason: Said
    chunks: list[Count]
    covered: bool


class Remarked(_Strict):
    """What the audit found, as a code with its values."""

    code: Name
    values: dict[Name, Annotated[str, StringConstraints(max_length=10_000)] | Count]


def _remarked(value: object) -> object:
    """Audits of the first version are kept as English sentences."""
    if not isinstance(value, list):
        return value
    return [{"code": "as_said", "values": {"text": each}} if isinstance(each, str) else each for each in value]


class Ours(_Strict):
    """What Retoma adds to the contract."""

    version: Literal[1]
    checksum: Sha256
    input_sha256: Sha256
    chapter_sha256: Sha256
    configuration: dict[str, Any]
    configuration_hash: Sha256
    passed: bool
    shortfalls: dict[Literal["resumo", "pontos_chave", "citacoes", "exemplos"], Said]
    quotations: list[Quoted]
    items: list[Item]
    sentences: Count
    read_sentences: Count
    unread: list[tuple[Count, Count]]
    errors: Annotated[list[Remarked], BeforeValidator(_remarked)]


class Checkpoint(_Strict):
    """One chapter that is done: its summary, its coverage, and how far the run was."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    session_id: Name
    chapter_number: Name
    timestamp_checkpoint: Time
    chapter_summary: ChapterSummary
    coverage_report: CoverageReport
    metadata: Metadata
    retoma: Ours | None = None

    @property
    def passed(self) -> bool:
        """PASS or FAIL: all of it was read, nothing critical is missing, and the audit holds."""
        coverage = self.coverage_report
        return (
            coverage.audit_result.passed
            and coverage.processed_chunks == coverage.total_chunks
            and not coverage.recall_set.missing_critical_item_ids
            and (self.retoma is None or self.retoma.passed)
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._names_agree()
        self._chunks_agree()
        self._times_agree()
        self._is_long_enough()
        return self

    def _names_agree(self) -> None:
        numbers = (self.chapter_number, self.chapter_summary.numero, self.coverage_report.chapter_number)
        if len(set(numbers)) > 1:
            raise PydanticCustomError(
                "chapter_differs",
                "the checkpoint is of chapter {top}, its summary of {summary}, its coverage of {coverage}",
                dict(zip(("top", "summary", "coverage"), numbers, strict=True)),
            )
        if self.metadata.session_id != self.session_id:
            raise PydanticCustomError("session_differs", "its metadata are of another session")
        if self.chapter_number not in self.metadata.capitulos_processados:
            raise PydanticCustomError("chapter_not_processed", "capitulos_processados does not name its chapter")

    def _chunks_agree(self) -> None:
        said = self.metadata
        if len(set(said.capitulos_processados)) != len(said.capitulos_processados):
            raise PydanticCustomError("metadata_inconsistent", "capitulos_processados names a chapter twice")
        if set(said.chunks_processados_por_capitulo) != set(said.total_chunks_por_capitulo):
            raise PydanticCustomError("metadata_inconsistent", "the two counts of chunks name other chapters")
        own = (
            said.chunks_processados_por_capitulo.get(self.chapter_number),
            said.total_chunks_por_capitulo.get(self.chapter_number),
        )
        if own != (self.coverage_report.processed_chunks, self.coverage_report.total_chunks):
            raise PydanticCustomError("metadata_inconsistent", "metadata count other chunks than the coverage does")

    def _times_agree(self) -> None:
        said = self.metadata
        if said.timestamp_ultimo_checkpoint <= said.timestamp_inicio:
            raise PydanticCustomError("times_out_of_order", "timestamp_ultimo_checkpoint is not after timestamp_inicio")
        if self.timestamp_checkpoint < said.timestamp_inicio:
            raise PydanticCustomError("times_out_of_order", "timestamp_checkpoint is before timestamp_inicio")

    def _is_long_enough(self) -> None:
        excused: Mapping[Any, str] = {} if self.retoma is None else self.retoma.shortfalls
        if self.chapter_summary.palavras < SHORT:
            return
        for name, told in self.chapter_summary.shortfalls().items():
            if name not in excused:
                raise PydanticCustomError("out_of_limits", "{told}", {"told": told})
