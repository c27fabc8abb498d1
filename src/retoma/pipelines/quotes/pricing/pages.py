"""Pages of shops, opened, read and kept: what a quote knows of them as values, and the bytes as evidence."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from retoma.errors import IsolatedFailure
from retoma.pipelines.quotes.ports import Evidence, PageRead, Picture, Refusal
from retoma.pipelines.quotes.pricing import screenshots
from retoma.pipelines.quotes.pricing.domains import NO_PAGE, Shops, domain_of
from retoma.pipelines.quotes.pricing.extract import read_apart
from retoma.pipelines.quotes.pricing.fetch import Fetched, PageRefused, fetch
from retoma.pipelines.quotes.pricing.offers import Found, Refused
from retoma.providers import BlobStore

_ENDINGS = {"text/html": "html", "application/json": "json", "image/png": "png"}
_SCREENSHOT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Opens pages within *shops*, keeps them in *blobs*, pictures them with *browser*."""

    blobs: BlobStore
    shops: Shops = field(default_factory=Shops)
    browser: Path | None = None
    """A Chromium; without one every piece of evidence says that there is no picture, and why."""
    catalogue: tuple[str, int] | None = None
    """The loopback server of the bundled shops; nothing else inside is ever opened."""
    folder: str = "quotes/evidence"
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def read(self, url: str, *, timeout: float) -> PageRead:
        """The price on the page at *url*, and the evidence of it; what goes wrong is told in the answer."""
        nothing = PageRead(url=url, domain=domain_of(url))
        if refused := self.shops.refusal(url):
            return _without(nothing, refused)
        try:
            page = await fetch(url, timeout=timeout, catalogue=self.catalogue)
        except PageRefused as error:
            return _without(nothing, Refused(reason=error.reason, detail=error.detail))
        nothing = PageRead(url=page.url, domain=domain_of(page.url))
        if page.url != url and (refused := self.shops.refusal(page.url)):
            return _without(nothing, refused)
        html = decoded(page)
        evidence = await self._keep_page(html, page.url)
        try:
            reading = await read_apart.run(html, page.url)
        except IsolatedFailure as error:
            reading = Refused(reason=Refusal.EXTRACTION_FAILED, detail=f"The page cannot be read: {error.message}")
        if isinstance(reading, Refused):
            return replace(_without(nothing, reading), evidence=evidence)
        return _with(nothing, reading, evidence)

    async def keep(self, content: str, *, url: str, kind: str) -> Evidence:
        """Keep what a service answered as evidence; it has no picture, because it is no page."""
        sha256, blob = await self._put(content.encode(), kind)
        return Evidence(
            url=url, sha256=sha256, blob=blob, captured_at=self.clock(), kind=kind, without_screenshot=NO_PAGE
        )

    async def _keep_page(self, html: str, url: str) -> Evidence:
        captured_at = self.clock()
        content = html.encode()
        sha256, blob = await self._put(content, "text/html")
        picture = await self.picture(content)
        return Evidence(
            url=url,
            sha256=sha256,
            blob=blob,
            captured_at=captured_at,
            screenshot=picture.blob,
            screenshot_sha256=picture.sha256,
            without_screenshot=picture.missing,
        )

    async def picture(self, html: bytes) -> Picture:
        """The picture of a page that was kept."""
        try:
            taken = await screenshots.take(html, browser=self.browser, timeout=_SCREENSHOT_SECONDS)
        except screenshots.NoScreenshot as error:
            return Picture(missing=str(error))
        sha256, blob = await self._put(taken, "image/png")
        return Picture(blob=blob, sha256=sha256)

    async def _put(self, content: bytes, kind: str) -> tuple[str, str]:
        """Keep *content* under its own hash: the same bytes are kept once, and others cannot take their place."""
        sha256 = hashlib.sha256(content).hexdigest()
        name = f"{self.folder}/{sha256[:2]}/{sha256}.{_ENDINGS.get(kind, 'txt')}"
        if not await self.blobs.exists(name):
            await self.blobs.put(name, _once(content))
        return sha256, name


def decoded(page: Fetched) -> str:
    """The text of a page: in UTF-8, in what its header says, or in the old encoding of Brazilian shops. It is kept as
    UTF-8, so that the evidence can be read again without the header.
    """
    for charset in filter(None, ("utf-8-sig", page.charset, "windows-1252")):
        with suppress(LookupError, UnicodeDecodeError):
            return page.content.decode(charset)
    return page.content.decode("utf-8", "replace")


def _with(page: PageRead, found: Found, evidence: Evidence) -> PageRead:
    return replace(
        page,
        title=found.title or None,
        price=found.price,
        currency=found.currency,
        method=found.method,
        evidence=evidence,
    )


def _without(page: PageRead, refused: Refused) -> PageRead:
    return replace(page, price=refused.price, refused=refused.reason, message=refused.detail)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
