"""PDF: the text layer by pdfium; what pdfium cannot open is rewritten by qpdf and tried again.

pdfium skips what it cannot understand, so that half a page or half a document could be missing unnoticed. Its result is
therefore checked by qpdf, which reports where something is lost.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pikepdf
import pypdfium2  # type: ignore[import-untyped]  # it has no types
from pypdfium2 import raw

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import limits, markup
from retoma.providers.local.errors import DocumentDamaged, DocumentEncrypted
from retoma.providers.local.outlines import Heading, chapters
from retoma.providers.local.readers import footnotes, ruled, typography
from retoma.providers.local.readers.columns import text_by_columns
from retoma.providers.local.readers.forms import fields_of, notes_of, with_written
from retoma.providers.local.readers.gaps import with_blanks
from retoma.providers.local.readers.nonsense import is_nonsense
from retoma.providers.local.readers.shown import page_as_shown
from retoma.providers.local.trail import Trail

_OUTLINE_DEPTH = 4
_OBJECT_DEPTH = 3
_GLANCE = 600
"""Pixels of a page's longer side, enough to see whether there is anything on it."""

_SEEN = 32
_STROKES = 20
"""A frame and a rule have fewer; a drawn word has more."""

_PARSED_BYTES = 4_000_000
"""A page with more content is a drawing, and checking it would take longer than reading it."""

# qpdf's messages when it continues without some part; a broken index it reports and repairs.
_LOST = re.compile(
    r"non-dictionary object|stream as empty|unable to recover|treating as null|giving up|not found in file|"
    r"non-name object|in hexstring|should be /Page but is not|EOF while reading|"
    r"unexpected EOF|inflate|error decoding"
)
_OPERATORS = {
    *b"b B b* B* BDC BI BMC BT BX c cm CS cs d d0 d1 Do DP EI EMC ET EX f F f* G g gs h i ID j J K k".split(),
    *b"l m M MP n q Q re RG rg ri s S SC sc SCN scn sh T* Tc Td TD Tf Tj TJ TL Tm Tr Ts Tw Tz v w W W* y ' \"".split(),
    b"INLINE IMAGE",
}
"""All operators of a page, and pikepdf's own name for an inline picture."""


def read(file: Path, trail: Trail) -> Extraction:
    """What pdfium reads. A page without text that shows something has the source "scan"."""
    reading = _read(file, file, trail, "pypdfium2")
    with _checked(file, trail) as pdf:
        return with_written(reading, fields_of(pdf), notes_of(pdf))


def repair(file: Path, trail: Trail) -> Extraction:
    """What pdfium reads after the file was repaired."""
    with _checked(file, trail) as pdf:
        fields, notes = fields_of(pdf), notes_of(pdf)
    return with_written(_read(file, repaired(file, trail), trail, "pikepdf+pypdfium2"), fields, notes)


def repaired(file: Path, trail: Trail) -> bytes:
    """The file rewritten by qpdf from what it found; raises when pages are lost."""
    trail.at("pikepdf")
    whole = io.BytesIO()
    with _checked(file, trail) as pdf:
        pdf.save(whole)
    return whole.getvalue()


@contextmanager
def _checked(file: Path, trail: Trail) -> Iterator[pikepdf.Pdf]:
    """The document as qpdf reads it; raises when a part of it is lost."""
    trail.at("pikepdf")
    try:
        with pikepdf.open(_with_ends(file), suppress_warnings=True) as pdf:
            markup.check_pages(file.name, len(pdf.pages))
            for number, page in enumerate(pdf.pages, start=1):
                trail.at("pikepdf", number)
                _parse(page)
            if lost := next((str(told) for told in pdf.get_warnings() if _LOST.search(str(told))), None):
                raise DocumentDamaged(
                    f"{file.name} has lost a part: {_short(file, lost)}.",
                    next="Find another copy; if what is left is enough, print it to a new PDF.",
                    reader="pikepdf",
                )
            yield pdf
    except pikepdf.PasswordError as error:
        raise locked(file) from error
    except (pikepdf.PdfError, zlib.error, RuntimeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DocumentDamaged(
            f"{file.name} is damaged: {_short(file, error)}.", next="Find another copy of it.", reader="pikepdf"
        ) from error


def _with_ends(file: Path) -> Path | io.BytesIO:
    """*file*, with the first and the last line of every PDF when they were cut off; qpdf finds what is between."""
    content = file.read_bytes()
    head = b"" if b"%PDF-" in content[:1024] else b"%PDF-1.7\n"
    tail = b"" if b"startxref" in content[-2048:] else b"\nstartxref\n0\n%%EOF\n"
    return io.BytesIO(head + content + tail) if head or tail else file


def _parse(page: pikepdf.Page) -> None:
    """Parse the content of a page, so that errors in it are noticed."""
    content = page.obj.get("/Contents")
    parts = content if isinstance(content, pikepdf.Array) else [content]
    streams = [part for part in parts if isinstance(part, pikepdf.Stream)]
    for stream in streams:
        if stream.get("/Filter") == "/FlateDecode":
            # qpdf and pdfium do not verify the checksum; a missing one is common, a wrong one means damage.
            zlib.decompressobj().decompress(stream.read_raw_bytes())
    if content is not None and len(streams) < len(parts):
        raise ValueError("the content of a page is missing")
    if sum(len(stream.read_bytes()) for stream in streams) < _PARSED_BYTES:
        said = {instruction.operator.unparse() for instruction in pikepdf.parse_content_stream(page)}
        if b"BX" not in said and (unknown := said - _OPERATORS):  # BX announces operators of later versions
            raise ValueError(f"the content of a page has no meaning at {min(unknown)!r}")


def _read(file: Path, source: Path | bytes, trail: Trail, reader: str) -> Extraction:
    trail.at(reader)
    with ExitStack() as stack:
        pdf = stack.enter_context(opened(file, source))
        copy = cache(lambda: stack.enter_context(opened(file, source)))
        markup.check_pages(file.name, len(pdf))
        outline = _outline(pdf)
        pages: list[Page] = []
        lines: list[typography.SetLine] = []
        tables: list[Table] = []
        going_on = False
        for number in range(1, len(pdf) + 1):
            trail.at(reader, number)
            sheet = _page(file, pdf, copy, number, letters=not outline, going_on=going_on)
            going_on = sheet.going_on
            pages.append(sheet.page)
            lines += sheet.lines
            tables += sheet.tables
        if not any(page.text.strip() or page.source == "scan" for page in pages):
            pages = [_looked_at(pdf, page, trail) for page in pages]
        markup.check_size(file.name, pages, tables)
        headings = typography.headings_of(lines)
        return Extraction(pages=tuple(pages), tables=tuple(tables), outline=outline, headings=headings, reader=reader)


@contextmanager
def opened(file: Path, source: Path | bytes) -> Iterator[pypdfium2.PdfDocument]:
    """The document, closed at the end; *file* is its name in errors."""
    try:
        pdf = pypdfium2.PdfDocument(source)
    except pypdfium2.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise locked(file) from error
        raise _damaged(file, error) from error
    try:
        yield pdf
    finally:
        pdf.close()


@contextmanager
def opened_or_repaired(file: Path, trail: Trail) -> Iterator[pypdfium2.PdfDocument]:
    """The document, repaired if it must be; closed at the end."""
    with ExitStack() as stack:
        try:
            pdf = stack.enter_context(opened(file, file))
        except DocumentDamaged:
            pdf = stack.enter_context(opened(file, repaired(file, trail)))
        yield pdf


class _Sheet(NamedTuple):
    """A page, how its lines are set, its ruled tables, and whether its last footnote goes on over the page."""

    page: Page
    lines: list[typography.SetLine]
    tables: list[Table]
    going_on: bool


def _page(
    file: Path,
    pdf: pypdfium2.PdfDocument,
    copy: Callable[[], pypdfium2.PdfDocument],
    number: int,
    *,
    letters: bool,
    going_on: bool,
) -> _Sheet:
    """The page; how its lines are set only when *letters* are asked for. *going_on* tells of the page before it."""
    lines: list[typography.SetLine] = []
    try:
        page = page_as_shown(pdf, copy, number)
        try:
            text_page = page.get_textpage()
            found = text_page.get_text_range()
            broken = is_nonsense(found)
            text = "" if broken else found
            tables = ruled.tables_of(page, text_page) if text else []
            if tables:
                text, tables = ruled.text_with(text_page, tables)
            else:
                text = text_by_columns(text_page, text) or with_blanks(text_page, text)
            text, going_on = footnotes.apart(text_page, found, text, going_on=going_on)
            text = text.replace(markup.SOFT_HYPHEN, "")
            if text and letters:
                lines = typography.lines_of(text_page, found, number)
            text_page.close()
            scan = broken or (not text.strip() and _shows(page))
        finally:
            page.close()
    except pypdfium2.PdfiumError as error:
        raise _damaged(file, error, page=number) from error
    told = Page(number=number, text=markup.clean(text), source="scan" if scan else "text")
    return _Sheet(told, lines, [Table(rows=each.rows, page=number) for each in tables], going_on)


def _shows(page: pypdfium2.PdfPage) -> bool:
    """Whether a page without text shows something: a picture, or letters drawn as lines."""
    strokes = 0
    for each in page.get_objects(max_depth=_OBJECT_DEPTH):
        strokes += each.type == raw.FPDF_PAGEOBJ_PATH
        if each.type == raw.FPDF_PAGEOBJ_IMAGE or strokes >= _STROKES:
            return True
    return False


def _looked_at(pdf: pypdfium2.PdfDocument, page: Page, trail: Trail) -> Page:
    """*page* of a document without any text, to be read from its picture unless it is blank to the eye, too."""
    trail.at("pypdfium2", page.number)
    sheet = pdf[page.number - 1]
    try:
        pixels = sheet.render(scale=_GLANCE / max(1.0, *sheet.get_size()), grayscale=True).to_numpy()
    finally:
        sheet.close()
    return page if int(pixels.max()) - int(pixels.min()) < _SEEN else replace(page, source="scan")


def _outline(pdf: pypdfium2.PdfDocument) -> tuple[tuple[str, int], ...]:
    headings = []
    for bookmark in pdf.get_toc(max_depth=_OUTLINE_DEPTH):
        target = bookmark.get_dest()
        index = target.get_index() if target else None
        if index is not None and 0 <= index < len(pdf):
            headings.append(Heading(bookmark.level, markup.clean(bookmark.get_title()), index + 1))
        if len(headings) == limits.OUTLINE:
            break
    return chapters(headings)


def locked(file: Path) -> DocumentEncrypted:
    """The error for a PDF that needs a password."""
    return DocumentEncrypted(
        f"{file.name} asks for a password.", next="Save it without the password and send it again."
    )


def _damaged(file: Path, error: Exception, page: int | None = None) -> DocumentDamaged:
    where = f"{file.name} is damaged" if page is None else f"{file.name} is damaged on page {page}"
    return DocumentDamaged(
        f"{where}: {_short(file, error)}.", next="Find another copy of it.", reader="pypdfium2", page=page
    )


def _short(file: Path, told: object) -> str:
    return " ".join(re.sub(r"stream <[^<>]*>", "", str(told)).replace(str(file), "").split()).strip(" .:")[:200]
