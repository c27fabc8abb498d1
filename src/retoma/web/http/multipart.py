"""Files that come in: a multipart body read as it arrives, one file after another, none of them held whole."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from retoma.model.validation import LARGEST_FILE as LARGEST
from retoma.web.http.auth import SiteContext
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import Purse

_MOST_DROPPED = 4 * LARGEST
_LONGEST_BOUNDARY = 200


class _Begin(NamedTuple):
    filename: str | None
    field: str


class _End(NamedTuple):
    pass


class Upload:
    """The files of a request. Each must be read, or left, before the next; what is left of one is dropped."""

    def __init__(self, request: Request) -> None:
        kind, options = parse_options_header(request.headers.get("content-type"))
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data":
            raise Refusal("multipart_expected")
        if not 0 < len(boundary) <= _LONGEST_BOUNDARY:
            raise Refusal("multipart_invalid")
        place: SiteContext = request.state.retoma
        self._limits = place.app.settings
        self._read = self._said = 0
        self.purse = Purse(request)
        self._stream = request.stream()
        self._found: deque[_Begin | bytes | _End] = deque()
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value = bytearray(), bytearray()
        self._whole = False
        self.fields: dict[str, str] = {}
        """What the form says beside its files, as far as it was read."""
        self.field = ""
        """The field that the file at hand was chosen in."""
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._headers.clear,
                "on_header_field": lambda data, start, end: self._name.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header,
                "on_headers_finished": self._begin,
                "on_part_data": lambda data, start, end: self._found.append(data[start:end]),
                "on_part_end": lambda: self._found.append(_End()),
                "on_end": self._end,
            },
        )

    async def files(self) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """The name and the content of each file; fields of the form that are no files are kept in *fields*."""
        count = fields = 0
        try:
            while (found := await self._next()) is not None:
                if not isinstance(found, _Begin):
                    continue  # the rest of what nobody read
                content = self._content()
                if found.filename:
                    count += 1
                    if count > self._limits.web_upload_files:
                        raise Refusal("too_many_files", limit=self._limits.web_upload_files)
                    await self.purse.pay(files=1)
                    self.field = found.field
                    yield found.filename, content
                else:
                    fields += 1
                    if fields > self._limits.web_form_fields:
                        raise Refusal("too_many_fields", limit=self._limits.web_form_fields)
                    self.fields[found.field] = await self._text(found.field, content)
                await self._drop(content)
        finally:
            await self.purse.close()

    async def _content(self) -> AsyncIterator[bytes]:
        while isinstance(found := await self._next(), bytes):
            yield found

    async def _text(self, name: str, content: AsyncIterator[bytes]) -> str:
        said, most = bytearray(), self._limits.web_form_bytes
        self._said += len(name)
        async for piece in content:
            said += piece
            self._said += len(piece)
            if self._said > most:
                raise Refusal("payload_too_large", limit=most)
        return said.decode("utf-8", "replace")

    async def _drop(self, content: AsyncIterator[bytes]) -> None:
        """Whoever refused a file must still read past it; but nobody has to read for ever."""
        left = _MOST_DROPPED
        async for piece in content:
            left -= len(piece)
            if left < 0:
                raise Refusal("file_too_large", limit=LARGEST, megabytes=LARGEST // 1_000_000)

    async def _next(self) -> _Begin | bytes | _End | None:
        while not self._found:
            # Ends with ClientDisconnect when the caller goes away half-way: then no file is taken for whole.
            piece = await anext(self._stream, None)
            if piece is None:
                if not self._whole:
                    raise Refusal("multipart_invalid")
                return None
            self._read += len(piece)
            if self._read > self._limits.web_upload_bytes:
                raise Refusal("payload_too_large", limit=self._limits.web_upload_bytes)
            await self.purse.pay(len(piece))
            try:
                self._parser.write(piece)
            except FormParserError:
                raise Refusal("multipart_invalid") from None
        return self._found.popleft()

    def _header(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _begin(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b"").decode("latin-1"))
        name = options.get(b"filename")
        # Browsers write names in UTF-8; what is not is shown with marks where it could not be read.
        field = options.get(b"name", b"").decode("utf-8", "replace")
        self._found.append(_Begin(None if name is None else name.decode("utf-8", "replace"), field))

    def _end(self) -> None:
        self._whole = True
