"""Reads documents with Azure Document Intelligence: they are submitted, then polled until they are done.

A submitted document is paid for. *submit* returns a text that can be stored, so that after a crash *look* polls the
same result instead of paying for another.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Literal

from azure.ai.documentintelligence.aio import DocumentIntelligenceClient
from azure.core.credentials import AzureKeyCredential
from azure.core.rest import HttpRequest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from retoma.providers import Extraction, Field, Page, ProviderError, RequestRejected, Table, Usage
from retoma.providers.azure import OPTIONS, AzureLine, azure_reply
from retoma.providers.deferred import Pending, ResultLost
from retoma.providers.http import Reply, read, rejected, unreadable

VERSION = "2024-11-30"
KINDS = frozenset({"pdf", "jpeg", "jpg", "png", "bmp", "tiff", "heif", "docx", "xlsx", "pptx", "html"})

_OPERATION = re.compile(r"documentModels/[\w.~-]+/analyzeResults/[\w-]+\?api-version=[\w-]+")
_BLAMED = ("Invalid", "Unsupported", "Content", "NotFound")  # prefixes of the codes that blame the document
_GONE = (404, 410)


class AzureExtractor:
    """Reads with *model*: "prebuilt-read" for text, "prebuilt-layout" for tables too.

    *features* are the paid extras of the service; "keyValuePairs" finds fields. *pause* is how many seconds to wait
    between two polls when the service does not say.
    """

    provider = "azure-documents"
    kept_seconds = 24 * 3600.0  # as the service promises

    def __init__(
        self,
        *,
        key: str,
        endpoint: str,
        model: str = "prebuilt-layout",
        features: Sequence[str] = (),
        pause: float = 1.0,
    ) -> None:
        def make() -> DocumentIntelligenceClient:
            return DocumentIntelligenceClient(endpoint, AzureKeyCredential(key), api_version=VERSION, **OPTIONS)

        self.model = model
        self.parameters = {"features": sorted(features)}
        self._features = ",".join(features)
        self._pause = pause
        self._line = AzureLine(self.provider, make, secrets=(key,))
        self.account = self._line.account

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """The content of *file*, polled until it is there. After a crash it is paid again; ``run.extract`` records
        what *submit* returns.
        """

        async def say(client: DocumentIntelligenceClient) -> Extraction:
            operation = await self._submit(client, file, kind)
            while isinstance(found := await self._look(client, operation), Pending):
                await asyncio.sleep(found.seconds)
            return found

        return await self._line.ask(say, timeout=timeout)

    async def submit(self, file: Path, *, kind: str, timeout: float) -> str:
        """Submit *file*; the returned operation leads to its result for a day."""
        return await self._line.ask(lambda client: self._submit(client, file, kind), timeout=timeout)

    async def look(self, operation: str, *, timeout: float) -> Extraction | Pending:
        """The content of the document submitted as *operation*, if it is done; a poll costs nothing."""
        # Only at our own address, because the key is sent along.
        if not _OPERATION.fullmatch(operation):
            raise rejected(self.provider, f"{operation[:80]!r} is not what submit() gave.")
        return await self._line.ask(lambda client: self._look(client, operation), timeout=timeout)

    async def aopen(self) -> None:
        _ = self._line.client()

    async def aclose(self) -> None:
        await self._line.close()

    async def _submit(self, client: DocumentIntelligenceClient, file: Path, kind: str) -> str:
        if kind not in KINDS:
            raise rejected(self.provider, f"{self.provider} reads {', '.join(sorted(KINDS))}, and not {kind}.")
        request = await asyncio.to_thread(self._request, file)
        reply = await self._send(client, request, expected=202)
        found = _OPERATION.search(reply.headers.get("operation-location", ""))
        if not found:
            raise unreadable(self.provider, reply.body, "it does not say where the result will be")
        return found[0]

    def _request(self, file: Path) -> HttpRequest:
        params = {"api-version": VERSION, "stringIndexType": "unicodeCodePoint"}
        if self._features:
            params["features"] = self._features
        content = file.read_bytes()
        return HttpRequest(
            "POST",
            f"documentModels/{self.model}:analyze",
            params=params,
            headers={"content-type": "application/octet-stream", "content-length": str(len(content))},
            content=BytesIO(content),  # bytes would be sent at once, and block the event loop
        )

    async def _look(self, client: DocumentIntelligenceClient, operation: str) -> Extraction | Pending:
        try:
            reply = await self._send(client, HttpRequest("GET", operation), expected=200)
        except RequestRejected as error:
            if error.status not in _GONE:
                error.paid = None  # the poll was refused, but the document was submitted
                raise
            lost = self._lost(error.message, error.status)
        else:
            return self._read(reply)
        raise lost

    def _read(self, reply: Reply) -> Extraction | Pending:
        match read(_Analysis, reply.body, provider=self.provider):
            case _Analysis(status="succeeded", analyze_result=_Result() as result):
                return _extraction(result, raw=reply.body)
            case _Analysis(status="succeeded"):
                raise unreadable(self.provider, reply.body, "it succeeded without a result")
            case _Analysis(status="failed", error=error):
                raise self._failed(error or _Error())
        return Pending(seconds=self._pause if reply.retry_after is None else reply.retry_after)

    async def _send(self, client: DocumentIntelligenceClient, request: HttpRequest, *, expected: int) -> Reply:
        # As a stream: otherwise the SDK parses the JSON itself, and a parse error would lose the body.
        async with await client.send_request(request, stream=True) as response:
            await response.read()
            reply = azure_reply(response)
        if reply.status != expected:
            raise self._line.failure(reply)
        return reply

    def _failed(self, error: _Error) -> ProviderError:
        blamed = any(each.code.startswith(_BLAMED) for each in (error, error.innererror) if each)
        failed = self._line.failure(Reply(422 if blamed else 500, {}, error.model_dump_json()))
        return failed if blamed else self._lost(failed.message, failed.status)

    def _lost(self, message: str, status: int | None) -> ResultLost:
        next = "It may have been billed. Hand the document in again."
        return ResultLost(message, next=next, provider=self.provider, status=status)


def _extraction(result: _Result, *, raw: str) -> Extraction:
    pages = [
        Page(number=page.page_number, text="\n".join(line.content for line in page.lines), source="ocr")
        for page in result.pages
    ]
    fields = [
        Field(
            name=pair.key.content,
            value=pair.value.content if pair.value else "",
            confidence=pair.confidence,
            page=pair.key.page,
        )
        for pair in result.key_value_pairs
    ]
    return Extraction(
        pages=pages,
        tables=[Table(rows=table.rows(), page=table.page) for table in result.tables],
        fields=fields,
        reader=result.model_id,
        raw=raw,
        usage=Usage(units=len(pages)),
    )


# — response bodies, as far as we read them —


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Region(_Wire):
    page_number: int


class _Placed(_Wire):
    content: str = ""
    bounding_regions: list[_Region] = []

    @property
    def page(self) -> int | None:
        return self.bounding_regions[0].page_number if self.bounding_regions else None


class _Line(_Wire):
    content: str


class _Page(_Wire):
    page_number: int
    lines: list[_Line] = []


class _Cell(_Wire):
    row_index: int
    column_index: int
    content: str = ""


class _Table(_Placed):
    row_count: int
    column_count: int
    cells: list[_Cell] = []

    def rows(self) -> list[list[str]]:
        """A cell that spans several columns or rows stands in the first of them."""
        rows = [[""] * self.column_count for _ in range(self.row_count)]
        for cell in self.cells:
            if 0 <= cell.row_index < self.row_count and 0 <= cell.column_index < self.column_count:
                rows[cell.row_index][cell.column_index] = cell.content
        return rows


class _Pair(_Wire):
    key: _Placed
    value: _Placed | None = None
    confidence: float = 0.0


class _Result(_Wire):
    model_id: str
    pages: list[_Page]
    tables: list[_Table] = []
    key_value_pairs: list[_Pair] = []


class _Error(_Wire):
    code: str = ""
    message: str = ""
    innererror: _Error | None = None


class _Analysis(_Wire):
    status: Literal["notStarted", "running", "succeeded", "failed"]
    analyze_result: _Result | None = None
    error: _Error | None = None
