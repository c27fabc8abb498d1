"""Ask for the content of a document, from a service that reads it at once or from one that reads it later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from retoma.providers import Answer, Extraction, Extractor
from retoma.providers.deferred import Pending, Submitter
from retoma.providers.request import DeferredRequest
from retoma.providers.requests.by_unit import UnitRequest


@dataclass(frozen=True, kw_only=True)
class Extract(UnitRequest[Extraction]):
    """The content of *file*; equal files are recognised by their *sha256*."""

    verb: ClassVar[str] = "extract"
    keeps_raw: ClassVar[bool] = False

    extractor: Extractor
    file: Path
    kind: str
    sha256: str

    @property
    def service(self) -> Extractor:
        """The extractor."""
        return self.extractor

    @property
    def answer_type(self) -> type[Extraction]:
        """Pages, tables, fields."""
        return Extraction

    @property
    def content(self) -> Mapping[str, Any]:
        """The file by its content, whatever its name."""
        return {"sha256": self.sha256, "kind": self.kind}

    async def send(self) -> Answer:
        """The content that the service reads."""
        return self.answer(await self.extractor.extract(self.file, kind=self.kind, timeout=self.timeout))


@dataclass(frozen=True, kw_only=True)
class DeferredExtract(DeferredRequest[Extraction], Extract):
    """The same for a service that accepts the document and reads it later."""

    extractor: Submitter

    @property
    def kept_seconds(self) -> float:
        """As the service promises."""
        return self.extractor.kept_seconds

    async def submit(self) -> str:
        """Submit the document."""
        return await self.extractor.submit(self.file, kind=self.kind, timeout=self.timeout)

    async def look(self, operation: str, *, timeout: float) -> Answer | Pending:
        """The content, if the service is done."""
        found = await self.extractor.look(operation, timeout=timeout)
        return found if isinstance(found, Pending) else self.answer(found)


def extract(
    extractor: Extractor, file: Path, *, kind: str, sha256: str, timeout: float = 100.0, reuse: bool = True
) -> Extract:
    """The request to read *file*, deferred or not, as *extractor* works."""
    if isinstance(extractor, Submitter):
        return DeferredExtract(extractor=extractor, file=file, kind=kind, sha256=sha256, timeout=timeout, reuse=reuse)
    return Extract(extractor=extractor, file=file, kind=kind, sha256=sha256, timeout=timeout, reuse=reuse)
