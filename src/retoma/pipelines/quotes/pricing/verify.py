"""A report, verified: every price read again from its evidence, every figure derived again, the file written again."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from pydantic import ValidationError

from retoma.errors import IsolatedFailure, RetomaError
from retoma.pipelines.quotes.ports import Evidence, Method, PriceSource
from retoma.pipelines.quotes.pricing import report_pdf, report_xlsx
from retoma.pipelines.quotes.pricing.extract import read_apart
from retoma.pipelines.quotes.pricing.offers import Found, cents
from retoma.pipelines.quotes.pricing.report import Document, Source, document, from_json, to_json
from retoma.pipelines.quotes.pricing.sources.compras import ComprasGov
from retoma.pipelines.quotes.pricing.sources.pncp import PublicContracts
from retoma.pipelines.quotes.pricing.sources.shopping import GoogleShopping
from retoma.pipelines.quotes.pricing.sources.table import FipeTable
from retoma.providers import Offers

Blobs = Callable[[str], Awaitable[bytes | None]]
"""The content of a blob by its name; None when it is not there."""

LARGEST = 500_000_000
_WITHOUT_EVIDENCE = frozenset({Method.MANUAL, Method.PRICE_BANK})


class ReportUnreadable(RetomaError):
    """A file that is no report of ours, or no longer one."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Where a report does not hold, and what it says there."""

    where: str
    what: str


def readers() -> dict[str, PriceSource]:
    """Who reads the kept answers of which provider; nobody is asked anything."""
    sources: list[PriceSource] = [ComprasGov(), PublicContracts(), FipeTable(), GoogleShopping(key="reads-only")]
    return {source.provider: source for source in sources}


async def verify(content: bytes, blobs: Blobs) -> list[Problem]:
    """What does not hold in the report *content* (PDF, XLSX or JSON); nothing, when every figure follows from the
    evidence to the cent.
    """
    told = read(content)
    problems = list(_derived(told))
    pictures: dict[str, bytes] = {}
    for report in told.reports:
        lost = [each for each in report.research.pictures if not await _is_kept(each, blobs)]
        problems += [Problem(f"item {report.research.number}", "its photograph is missing or is another one")] * len(
            lost
        )
        for number, source in enumerate(report.research.sources, start=1):
            where = f"item {report.research.number}, source {number}"
            problems += [Problem(where, each) for each in await _evidence(source, blobs, pictures)]
    if not problems:
        problems += _written(content, told, pictures)
    return problems


def read(content: bytes) -> Document:
    """The document that a file carries."""
    try:
        if content.startswith(b"%PDF"):
            return from_json(_of_pdf(content))
        if content.startswith(b"PK"):
            return from_json(_of_xlsx(content))
        return from_json(content)
    except (ValidationError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ReportUnreadable(
            f"This is no report of Retoma, or it was damaged: {type(error).__name__}.",
            next="Take the PDF, XLSX or JSON as it was downloaded.",
        ) from None


def _of_pdf(content: bytes) -> bytes:
    from pikepdf import Pdf, PdfError  # noqa: PLC0415 - only who verifies a PDF needs it

    try:
        with Pdf.open(BytesIO(content)) as opened:
            return bytes(opened.attachments[report_pdf.ATTACHED].get_file().read_bytes())
    except PdfError as error:
        raise ValueError(str(error)) from None


def _of_xlsx(content: bytes) -> bytes:
    from openpyxl import load_workbook  # type: ignore[import-untyped]  # noqa: PLC0415 - only who verifies a workbook

    with zipfile.ZipFile(BytesIO(content)) as archive:
        if sum(each.file_size for each in archive.infolist()) > LARGEST:
            raise ValueError("too large")
    book = load_workbook(BytesIO(content), read_only=True)
    try:
        return "".join(str(row[0]) for row in book[report_xlsx.DATA].iter_rows(values_only=True)).encode()
    finally:
        book.close()


# — figures —


def _derived(told: Document) -> Iterator[Problem]:
    """Every figure that does not follow from the sources and the rules."""
    try:
        again = document(told.title, told.closed_at, *(report.research for report in told.reports))
    except RetomaError as error:
        yield Problem("figures", f"they cannot be derived: {error.message}")
        return
    for where, was, derived in _differences(json.loads(to_json(told)), json.loads(to_json(again)), ""):
        yield Problem(where, f"the report says {was}, and {derived} follows from its sources")


def _differences(was: Any, derived: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    match was, derived:
        case dict(), dict():
            for key in sorted({*was, *derived}):
                yield from _differences(was.get(key), derived.get(key), f"{where}.{key}".lstrip("."))
        case list(), list() if len(was) == len(derived):
            for number, (one, other) in enumerate(zip(was, derived, strict=True), start=1):
                yield from _differences(one, other, f"{where}[{number}]")
        case _:
            if was != derived:
                yield where, was, derived


# — evidence —


async def _is_kept(evidence: Evidence, blobs: Blobs) -> bool:
    content = await blobs(evidence.blob)
    return content is not None and hashlib.sha256(content).hexdigest() == evidence.sha256


async def _evidence(source: Source, blobs: Blobs, pictures: dict[str, bytes]) -> list[str]:
    evidence = source.evidence
    if evidence is None:
        counts = source.refused is None and source.method not in _WITHOUT_EVIDENCE
        return ["its price counts and has no evidence"] if counts else []
    problems = []
    if evidence.screenshot and evidence.screenshot_sha256:
        picture = await blobs(evidence.screenshot)
        if picture is None or hashlib.sha256(picture).hexdigest() != evidence.screenshot_sha256:
            problems.append("its picture is missing or is another one")
        else:
            pictures[evidence.screenshot_sha256] = picture
    content = await blobs(evidence.blob)
    if content is None or hashlib.sha256(content).hexdigest() != evidence.sha256:
        return [*problems, "its evidence is missing or is another one"]
    if source.refused is not None:
        return problems
    found = await _price(source, content.decode("utf-8", "replace"), evidence.kind, evidence.url)
    if source.price is None or found != cents(source.price):
        problems.append(f"the report says {source.price}, and its evidence says {found}")
    return problems


async def _price(source: Source, content: str, kind: str, url: str) -> Any:
    """The price that a piece of evidence says; a word when it says none."""
    if source.method in _WITHOUT_EVIDENCE:
        return None if source.price is None else cents(source.price)  # a person read it, and says so
    if kind == "text/html":
        try:
            reading = await read_apart.run(content, url)
        except IsolatedFailure:
            return "nothing that can be read"
        return reading.price if isinstance(reading, Found) else reading.reason.value
    reader = readers().get(source.provider)
    if reader is None:
        return "nothing that anybody can read"
    try:
        offers = reader.read(Offers(offers=(), raw=content))
    except (ValueError, KeyError, TypeError, AttributeError):
        return "nothing that can be read"
    return next((offer.price for offer in offers if offer.key == source.key), "nothing about it")


# — files —


def _written(content: bytes, told: Document, pictures: dict[str, bytes]) -> list[Problem]:
    """Whether the file shows what the document says: it is written again and compared."""
    if content.startswith(b"%PDF"):
        same = report_pdf.render(told, pictures) == content or report_pdf.render(told) == content
    elif content.startswith(b"PK"):
        same = _members(report_xlsx.render(told)) == _members(content)
    else:
        same = to_json(told) == content
    return [] if same else [Problem("file", "it was changed after it was written")]


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
