"""The outside world, as narrow as we need it: what providers are asked, what they answer, how they fail.

A provider is asked with a value and answers with a value that carries the answer *as it came* (``raw``), so that it
can be written down before anybody reads it. Providers never retry and never wait: who is asked too much raises
RateLimited with the time to come back, and the engine decides.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from retoma.errors import RetomaError
from retoma.model.rates import Usage

__all__ = [
    "Allowance",
    "Answer",
    "AnswerUnreadable",
    "Blob",
    "BlobStore",
    "Chat",
    "Classifier",
    "Embedder",
    "Extraction",
    "Extractor",
    "Field",
    "Label",
    "Message",
    "Offer",
    "Offers",
    "Page",
    "Picture",
    "PriceSearch",
    "Prompt",
    "ProviderDown",
    "ProviderError",
    "ProviderRefused",
    "ProviderTimeout",
    "RateLimited",
    "RequestRejected",
    "Table",
    "Usage",
    "Vectors",
    "Verdict",
    "takes_pictures",
]

_NOTHING = Usage()

# — how they fail —


class ProviderError(RetomaError):
    """A provider did not do what it was asked. *retryable* says whether the same request may succeed later."""

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        next: str = "",
        provider: str,
        status: int | None = None,
        retry_after: float | None = None,
        paid: bool | None = None,
    ) -> None:
        super().__init__(message, next=next)
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        """Seconds to wait at least, when the provider said so."""
        self.paid = paid
        """Whether the request was billed, as far as that can be known: None is in doubt."""


class RateLimited(ProviderError):
    """Too many requests: everybody waits until *retry_after* is over."""


class ProviderDown(ProviderError):
    """Nobody answers, the answer was 5xx, or it broke off half-way."""


class ProviderTimeout(ProviderDown):
    """No answer in time; whether it was billed is in doubt."""


class ProviderRefused(ProviderError):
    """The key or the credit is not good: no request will succeed until a person acts."""

    retryable = False


class RequestRejected(ProviderError):
    """One request is wrong (too long, unknown model, bad parameter); another may succeed."""

    retryable = False


class AnswerUnreadable(ProviderError):
    """There was an answer, and it is not what the protocol promises."""

    raw: str | None = None
    """The body as it came: it was paid, so it is kept."""


# — what is said —


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image that goes with what is said: a *file* of this machine, its type as in "image/png", and its hash, by
    which equal ones are known.
    """

    file: Path
    kind: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation. Only a model that ``takes_pictures`` is sent any."""

    role: str
    content: str
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is asked. *parameters* go to the provider as they are; *schema* asks for JSON of that shape."""

    messages: Sequence[Message]
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the provider says is left, from its headers."""

    requests: int | None = None
    tokens: int | None = None
    resets_in: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a provider said: *raw* is the body as it came (JSON text), *text* what it means for who asked."""

    raw: str
    text: str
    model: str
    usage: Usage = _NOTHING
    request_id: str | None = None
    finish: str | None = None
    """Why the model stopped: "stop", "length", "filter"…, in the provider's own words."""
    allowance: Allowance | None = None
    call: int | None = None
    """The number under which it was written down; the engine's own."""

    @property
    def truncated(self) -> bool:
        """Whether the model would have said more, had it been allowed to."""
        return self.finish in ("length", "max_tokens", "model_context_window_exceeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """One vector per text, in their order."""

    vectors: Sequence[Sequence[float]]
    model: str
    usage: Usage = _NOTHING
    allowance: Allowance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a page, row by row."""

    rows: Sequence[Sequence[str]]
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Something a document says under a name."""

    name: str
    value: str
    confidence: float
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The text of one page, and where it came from: "text" or "ocr"."""

    number: int
    text: str
    source: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What was read from a document."""

    pages: Sequence[Page]
    tables: Sequence[Table] = ()
    fields: Sequence[Field] = ()
    outline: Sequence[tuple[str, int]] = ()
    """Titles and their pages, when the document has an outline of its own."""
    headings: Sequence[tuple[int, str, int]] = ()
    """Depth (the top is 0), title and page of every line that the document's own style calls a heading."""
    reader: str
    """Which reader got it, in the end: "pypdfium2", "pikepdf+pypdfium2", "tesseract"…"""
    raw: str | None = None
    usage: Usage = _NOTHING

    @property
    def text(self) -> str:
        """The whole text; pages are parted by a form feed."""
        return "\f".join(page.text for page in self.pages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A kind a document may be of, told in a sentence, with words that give it away."""

    name: str
    description: str = ""
    cues: Sequence[str] = ()
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which kind a text is of, how sure that is, and the words it was judged by."""

    label: str
    score: float
    margin: float
    confidence: str
    """"alta", "media" or "baixa"."""
    quote: str
    """Verbatim from the text."""
    justification: str
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A thing for sale."""

    title: str
    price: Decimal
    currency: str
    source: str
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What a search for prices found."""

    offers: Sequence[Offer]
    raw: str
    usage: Usage = _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A stored file: where it is, how large, and what is in it."""

    name: str
    size: int
    sha256: str


# — who is asked —


@runtime_checkable
class Chat(Protocol):
    """A language model. One that takes the pictures of a message has *takes_pictures* True."""

    provider: str
    model: str

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:
        """The model's answer to *prompt*."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of *dimensions* numbers."""

    provider: str
    model: str
    dimensions: int

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        """One vector per text."""
        ...


@runtime_checkable
class Extractor(Protocol):
    """Reads documents. A *model*, and *parameters* that change what is read, are told apart when it has any."""

    provider: str

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """What *file* says; *kind* is its type by content, as in "pdf" or "docx"."""
        ...


@runtime_checkable
class Classifier(Protocol):
    """Tells of which kind texts are."""

    provider: str
    model: str

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        """One verdict per text."""
        ...


@runtime_checkable
class PriceSearch(Protocol):
    """Looks for offers. *parameters* that change what is found are told apart when it has any; one that is free has
    *bills* False.
    """

    provider: str

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """Offers for *query*, as the shop lists them."""
        ...


@runtime_checkable
class BlobStore(Protocol):
    """Keeps files under names of our own."""

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        """Store *content*; all of it or nothing, refused when longer than *most* bytes."""
        ...

    def open(
        self, name: str, *, start: int = 0, length: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The content, in pieces: from its byte *start* on, *length* bytes or all that follow. Who asks for a part
        knows that it is there.
        """
        ...

    async def delete(self, name: str) -> bool:
        """Whether it was there."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether it is there."""
        ...


def takes_pictures(chat: Chat | None) -> bool:
    """Whether *chat* sees the pictures that go with a message; one that says nothing of it does not."""
    return bool(getattr(chat, "takes_pictures", False))
