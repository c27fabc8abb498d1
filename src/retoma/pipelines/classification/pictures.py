"""The page of a judged document on which the deciding words stand, as a picture."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, NotFound, RetomaError
from retoma.model.ids import JobId
from retoma.pipelines.files.ingest import hash_of, local_file
from retoma.providers import BlobStore, ProviderError
from retoma.providers.local.errors import (
    DocumentEncrypted,
    DocumentUnreadable,
    ImageTooLarge,
    ParserMemory,
    ParserTimeout,
    TooManyPages,
)
from retoma.providers.local.pictures import DRAWN, Drawn, drawn, page_with
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.classification.queries", "pictures.sql")

_OF_TEXT = ("txt", "csv", "html", "eml")
"""Kinds whose text is all there is to see."""


class PageUnshown(RetomaError):
    """A page that cannot be drawn; the message says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a page is drawn from; without a *blob* the file is not the one that was judged."""

    id: int
    job_id: JobId
    name: str
    quote: str | None
    beginning: str | None
    text_source: str | None
    sha256: str | None
    kind: str | None
    blob: str | None

    @property
    def words(self) -> str:
        """The words that lead to the page: those that decided, else those with which the judged part begins."""
        return self.quote or self.beginning or ""

    @property
    def tag(self) -> str:
        """What the picture depends on."""
        told = "\0".join((self.sha256 or "", self.words, self.text_source or "", str(bool(self.quote))))
        return hashlib.sha256(told.encode()).hexdigest()[:32]


def source(batch_id: int, id: int) -> Query[Source]:
    return Query(SQL["source"], Source, {"batch_id": batch_id, "id": id})


def why_not(kind: str | None, *, kept: bool) -> str | None:
    """Why there is no picture of a document of this *kind*; None when there may be one, or when its text is all that
    there is to see.
    """
    if kind in _OF_TEXT:
        return None
    if not kept:
        return "The file is not the one that was judged; this is the text that was."
    if kind not in DRAWN:
        return f"Pages of {kind} files are not drawn; this is the text that was read."
    return None


def has_picture(kind: str | None, *, kept: bool) -> bool:
    """Whether a picture of a document of this *kind* may be asked for."""
    return kept and kind in DRAWN


async def page_of(app: Retoma, source: Source) -> Drawn:
    """The picture; raises PageUnshown when there is none."""
    if source.blob is None or source.kind not in DRAWN:
        why = why_not(source.kind, kept=source.blob is not None)
        raise PageUnshown(why or "This document is text, and has no pages.")
    number = await _page_read(app, source) if source.text_source == "ocr" else None
    try:
        async with local_file(app.provider(BlobStore), source.blob, source.kind) as file:
            if await hash_of(file) != source.sha256:
                raise PageUnshown("The page is not shown: the file in the store is not the one that was received.")
            return await drawn(file, source.kind, words=source.words, number=number, mark=source.quote is not None)
    except NotFound:
        raise PageUnshown("The page is not shown: the file is not in the store any more.") from None
    except (DocumentUnreadable, ConfigurationError) as error:
        raise PageUnshown(_told(error)) from error


def _told(error: ProviderError | ConfigurationError) -> str:
    match error:
        case DocumentEncrypted():
            return "The page is not shown: the file asks for a password."
        case ImageTooLarge() | TooManyPages() | ParserMemory() | ParserTimeout():
            return "The page is not shown: drawing it takes more than a picture may."
        case ConfigurationError():
            return "The page is not shown: this server lacks what draws pages. Install 'retoma[local,ocr]' on it."
    return "The page is not shown: the file is damaged."


async def _page_read(app: Retoma, source: Source) -> int | None:
    """The page on which OCR has read the words: a scan has no text of its own in which they could be found."""
    try:
        saved = await app.jobs.checkpoints(source.job_id)
    except NotFound:
        return None
    text = next((each.value for each in saved if each.step == "read" and each.set_aside_at is None), None)
    pages = orjson.loads(text)["pages"] if text else []
    return page_with(source.words, ((each["number"], each["text"]) for each in pages))
