"""Pages of a PDF with all that people see on them.

What a form, a signature or a stamp shows is no part of a page's own text. pdfium can make it a part of it. That changes
the document, and at times it takes a font of the page for one of the stamp. So it is done in a copy, and the copy is
taken only where it still says what the page says.
"""

from __future__ import annotations

from collections.abc import Callable

import pypdfium2  # type: ignore[import-untyped]  # it has no types
from pypdfium2 import raw

from retoma.providers.local import limits, markup

_SILENT = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)
_KEPT = 0.99


def page_as_shown(
    pdf: pypdfium2.PdfDocument, copy: Callable[[], pypdfium2.PdfDocument], number: int
) -> pypdfium2.PdfPage:
    """The page of that *number*, for the caller to close; *copy* opens the document once more."""
    page = pdf[number - 1]
    if not _is_written_on(page):
        return page
    other = copy()
    sheet = other[number - 1]
    done = raw.FPDFPage_Flatten(sheet, raw.FLAT_NORMALDISPLAY)
    sheet.close()
    if done != raw.FLATTEN_SUCCESS:
        return page
    shown = other[number - 1]
    if markup.words_kept(_text(page), _text(shown)) < _KEPT:
        shown.close()
        return page
    page.close()
    return shown


def _is_written_on(page: pypdfium2.PdfPage) -> bool:
    """Whether there is more on *page* than links and notes that are closed."""
    for index in range(min(limits.OUTLINE, raw.FPDFPage_GetAnnotCount(page))):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
        if kind not in _SILENT:
            return True
    return False


def _text(page: pypdfium2.PdfPage) -> str:
    text_page = page.get_textpage()
    try:
        told: str = text_page.get_text_range()
        return told
    finally:
        text_page.close()
