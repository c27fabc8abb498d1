"""Reads documents without a key and without a network. Every parser runs in a child process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from retoma.errors import IsolatedCrash, IsolatedMemory, IsolatedTimeout
from retoma.isolate import Isolated
from retoma.providers import Extraction, Page, Usage
from retoma.providers.local import limits
from retoma.providers.local.bytecode import compile_once
from retoma.providers.local.errors import (
    DocumentDamaged,
    DocumentEmpty,
    DocumentEncrypted,
    DocumentUnreadable,
    OcrUnavailable,
    ParserCrashed,
    ParserMemory,
    ParserTimeout,
    TypeMismatch,
)
from retoma.providers.local.kinds import TEXTS, detect
from retoma.providers.local.readers import OCR_OF_PAGES, READERS, read
from retoma.providers.local.trail import last_of

_PICTURES = ("png", "jpg", "tiff")
_UNHARMED = "The worker and the other documents are unharmed."


class LocalExtractor:
    """Reads documents locally. *readers* replaces or adds readers of a kind: ``{"pdf": ["mine:read"]}``."""

    provider = "local"

    def __init__(self, *, readers: Mapping[str, Sequence[str]] | None = None) -> None:
        self._readers: Mapping[str, Sequence[str]] = {**READERS, **(readers or {})}

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """The content of *file*, and in *reader* the reader that succeeded; raises a DocumentUnreadable when none did.

        The *timeout* is for the work of all readers together; the wait for a free child process does not count.
        """
        found = await asyncio.to_thread(detect, file)
        if kind != found and not (kind in TEXTS and found in TEXTS):
            raise TypeMismatch(
                f"{file.name} was said to be {kind} and is {found}.", next=f"Ask for it to be read as {found}."
            )
        sitting = _Sitting(file, timeout)
        extraction = await sitting.ask(self._readers[kind], pictures=kind in _PICTURES)
        extraction = await _with_scans(sitting, extraction)
        if not extraction.text.strip():
            raise DocumentEmpty(
                f"{file.name} was read by {extraction.reader}, and there is no text in it.",
                next="If a person can read something in it, print it to a PDF and send that.",
                reader=extraction.reader,
            )
        return replace(extraction, usage=Usage(units=len(extraction.pages)))


async def why_not(file: Path, kind: str, *, timeout: float) -> DocumentEncrypted | DocumentDamaged | None:
    """Why *file* cannot be opened at all; None when it can, or when that takes too long to find out."""
    try:
        await _Sitting(file, timeout).ask(READERS[kind], pictures=False)
    except (DocumentEncrypted, DocumentDamaged) as error:
        return error
    except DocumentUnreadable:
        return None
    return None


async def _with_scans(sitting: _Sitting, extraction: Extraction) -> Extraction:
    """*extraction* with the text of its scanned pages."""
    scans = [page.number for page in extraction.pages if page.source == "scan"]
    if not scans:
        return extraction
    try:
        reading = await sitting.ask([OCR_OF_PAGES], pictures=True, numbers=scans)
    except OcrUnavailable:
        if not extraction.text.strip():
            raise
        # A cover or a photograph must not fail a whole book; such a page keeps its source "scan".
        return replace(extraction, reader=f"{extraction.reader}, without OCR")
    read_again = {page.number: page for page in reading.pages}
    return replace(
        extraction,
        pages=tuple(_both(page, read_again.get(page.number)) for page in extraction.pages),
        reader=f"{extraction.reader}+{reading.reader}",
    )


def _both(page: Page, read_again: Page | None) -> Page:
    """The page as OCR has read it, above the notes that were known before."""
    if read_again is None:
        return page
    return replace(read_again, text="\n".join(filter(None, (read_again.text, page.text))))


class _Sitting:
    """One document and its readers, tried one after the other until one has read it."""

    def __init__(self, file: Path, seconds: float) -> None:
        self._file = file
        self._seconds = seconds
        self._left = seconds
        self._crashes: list[ParserCrashed] = []
        self._damages: list[DocumentDamaged] = []

    async def ask(self, readers: Sequence[str], *, pictures: bool, **more: Any) -> Extraction:
        """The result of the first of *readers* that succeeds; gives up after a second crash."""
        waiting, before = list(readers), len(self._crashes)
        while waiting:
            place = waiting.pop(0)
            try:
                reading = await self._ask(place, pictures=pictures, **more)
                crashed = "".join(f", after {crash.reader} had crashed" for crash in self._crashes[before:])
                return replace(reading, reader=f"{reading.reader}{crashed}")
            except DocumentDamaged as damage:
                self._damages.append(damage)
            except ParserCrashed as crash:
                self._crashes.append(crash)
                if len(self._crashes) > 1:
                    raise self._quarantined() from crash
                waiting = waiting or [place]  # once more: the machine may have caused it, and not the file
        raise self._given_up()

    async def _ask(self, place: str, *, pictures: bool, **more: Any) -> Extraction:
        megabytes = limits.OCR_MEGABYTES if pictures else limits.READ_MEGABYTES
        await compile_once(place)
        left = max(0.1, self._left)
        call = Isolated(read, seconds=left, megabytes=megabytes).ask(place, self._file, seconds=left, **more)
        try:
            reading: Extraction = await asyncio.wrap_future(call.future)
            return reading
        except (IsolatedCrash, IsolatedTimeout, IsolatedMemory) as failure:
            raise self._failed(failure, last_of(call.note), place) from failure
        finally:
            self._left -= call.worked

    def _failed(
        self,
        failure: IsolatedCrash | IsolatedTimeout | IsolatedMemory,
        last: tuple[str | None, int | None],
        place: str,
    ) -> ParserCrashed | ParserTimeout | ParserMemory:
        reader, page = last
        reader = reader or place
        where = f"{reader} on page {page} of {self._file.name}" if page else f"{reader} on {self._file.name}"
        evidence: dict[str, Any] = {"reader": reader, "page": page, "signal": failure.signal}
        match failure:
            case IsolatedTimeout():
                return ParserTimeout(
                    f"{where} was still at work when the {self._seconds:g} s of this document were over.",
                    next=f"{_UNHARMED} Allow more time if it is an honest document.",
                    **evidence,
                )
            case IsolatedMemory():
                peak = f" ({failure.peak_megabytes:.0f} MB in use)" if failure.peak_megabytes else ""
                return ParserMemory(
                    f"{where} wanted more memory than it may have{peak}.", next=f"{_UNHARMED} Split it.", **evidence
                )
            case _:
                died = f"signal {failure.signal}" if failure.signal else f"exit code {failure.child_exit_code}"
                return ParserCrashed(f"{where} died by {died}.", next=_UNHARMED, **evidence)

    def _quarantined(self) -> ParserCrashed:
        first, second = self._crashes
        return ParserCrashed(
            f"{first.message} Then {second.message}",
            next=f"{_UNHARMED} Do not send this file again; find another copy, or print it to a new PDF.",
            reader=second.reader,
            page=second.page,
            signal=second.signal,
        )

    def _given_up(self) -> DocumentDamaged:
        *_, last = self._damages
        told = " Then: ".join(dict.fromkeys(damage.message for damage in self._damages))
        return DocumentDamaged(told, next=last.next, reader=last.reader, page=last.page)
