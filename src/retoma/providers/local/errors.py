"""Why a document could not be read. Each error has a stable *code*, and says what, why and what to do next.

DocumentUnreadable
├── DocumentMissing      document_missing    it is not there, or may not be opened
├── ContentChanged       content_changed     it is not the content that was received
├── DocumentEmpty        document_empty      it was read, and there is no text in it
├── DocumentEncrypted    document_encrypted  it asks for a password
├── DocumentDamaged      document_damaged    no reader could make sense of it
├── TypeUnknown          type_unknown        its content is of no kind that we read
├── TypeMismatch         type_mismatch       its content is not what it was said to be
├── ArchiveLimits        archive_limits      it unpacks to more than any honest document does
├── MarkupRefused        markup_refused      its XML declares entities, which no honest document needs
├── TooManyPages         too_many_pages      more pages than we read
├── ImageTooLarge        image_too_large     more pixels than we decode
├── TextTooLong          text_too_long       more text than we carry
├── OcrUnavailable       ocr_unavailable     it is a picture of text, and nobody here can read pictures
├── ParserCrashed        parser_crashed      its readers died of it, twice
├── ParserTimeout        parser_timeout      its reader took longer than it may
└── ParserMemory         parser_memory       its reader wanted more memory than it may have
"""

from __future__ import annotations

from retoma.providers import ProviderError


class DocumentUnreadable(ProviderError):
    """The root of the tree. Unless an error says otherwise, another attempt would end the same."""

    retryable = False
    code = "document_unreadable"

    def __init__(
        self,
        message: str,
        *,
        next: str = "",
        reader: str | None = None,
        page: int | None = None,
        signal: int | None = None,
    ) -> None:
        super().__init__(message, next=next, provider="local", paid=False)
        self.reader = reader
        """Who was reading, when that is known."""
        self.page = page
        """The page it was on, when that is known; the first is 1."""
        self.signal = signal
        """The signal that killed the reader, when one did."""


class DocumentMissing(DocumentUnreadable):
    """It is not there, or may not be opened."""

    code = "document_missing"


class ContentChanged(DocumentUnreadable):
    """It is not the content that was received."""

    code = "content_changed"


class DocumentEmpty(DocumentUnreadable):
    """It was read, and there is no text in it."""

    code = "document_empty"


class DocumentEncrypted(DocumentUnreadable):
    """It asks for a password."""

    code = "document_encrypted"


class DocumentDamaged(DocumentUnreadable):
    """No reader could make sense of it."""

    code = "document_damaged"


class TypeUnknown(DocumentUnreadable):
    """Its content is of no kind that we read."""

    code = "type_unknown"


class TypeMismatch(DocumentUnreadable):
    """Its content is not what it was said to be."""

    code = "type_mismatch"


class ArchiveLimits(DocumentUnreadable):
    """It unpacks to more than any honest document does."""

    code = "archive_limits"


class MarkupRefused(DocumentUnreadable):
    """Its XML declares entities, which no honest document needs."""

    code = "markup_refused"


class TooManyPages(DocumentUnreadable):
    """More pages than we read."""

    code = "too_many_pages"


class ImageTooLarge(DocumentUnreadable):
    """More pixels than we decode."""

    code = "image_too_large"


class TextTooLong(DocumentUnreadable):
    """More text than we carry."""

    code = "text_too_long"


class OcrUnavailable(DocumentUnreadable):
    """It is a picture of text, and nobody here can read pictures."""

    code = "ocr_unavailable"


class ParserCrashed(DocumentUnreadable):
    """Its readers died of it, twice."""

    code = "parser_crashed"


class ParserTimeout(DocumentUnreadable):
    """Its reader took longer than it may; on a machine with less to do it might not."""

    retryable = True
    code = "parser_timeout"


class ParserMemory(DocumentUnreadable):
    """Its reader wanted more memory than it may have."""

    code = "parser_memory"
