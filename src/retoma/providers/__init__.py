"""The protocols of external services: what providers are asked, what they answer, and how they fail.

A provider takes a value and returns a value that carries the raw answer (``raw``), so that the answer can be recorded
before it is parsed. Providers never retry and never wait: an overloaded provider raises RateLimited with the time to
come back, and the engine decides.
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

# — errors —


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
        """Whether the request was billed; None means unknown."""


class RateLimited(ProviderError):
    """Too many requests: every caller waits for *retry_after* seconds."""


class ProviderDown(ProviderError):
    """No answer, an answer with a 5xx status, or a broken connection."""


class ProviderTimeout(ProviderDown):
    """No answer in time; whether it was billed is unknown."""


class ProviderRefused(ProviderError):
    """The key or the credit is invalid: no request will succeed until a person acts."""

    retryable = False


class RequestRejected(ProviderError):
    """One request is wrong (too long, unknown model, bad parameter); another may succeed."""

    retryable = False


class AnswerUnreadable(ProviderError):
    """The answer does not follow the protocol of the service."""

    raw: str | None = None
    """The raw body: it was paid for, so it is kept."""


# — values —


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
    """What a model is asked. *parameters* are passed to the provider unchanged; *schema* asks
    for JSON of that shape.
    """

    messages: Sequence[Message]
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is left of the provider's limits, from its headers."""

    requests: int | None = None
    tokens: int | None = None
    resets_in: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of a provider: *raw* is the raw body (JSON text), *text* its content for the caller."""

    raw: str
    text: str
    model: str
    usage: Usage = _NOTHING
    request_id: str | None = None
    finish: str | None = None
    """Why the model stopped: "stop", "length", "filter"…, in the provider's own words."""
    allowance: Allowance | None = None
    call: int | None = None
    """The number of the recorded call; set by the engine."""

    @property
    def truncated(self) -> bool:
        """Whether the answer was cut off by the length limit."""
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
    """A named value in a document."""

    name: str
    value: str
    confidence: float
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The text of one page, and its source: "text" or "ocr"."""

    number: int
    text: str
    source: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The content that was read from a document."""

    pages: Sequence[Page]
    tables: Sequence[Table] = ()
    fields: Sequence[Field] = ()
    outline: Sequence[tuple[str, int]] = ()
    """Titles and their pages, when the document has an outline of its own."""
    headings: Sequence[tuple[int, str, int]] = ()
    """Depth (the top is 0), title and page of every line that the document's own style marks as a heading."""
    reader: str
    """The reader that succeeded: "pypdfium2", "pikepdf+pypdfium2", "tesseract"…"""
    raw: str | None = None
    usage: Usage = _NOTHING

    @property
    def text(self) -> str:
        """The whole text; pages are separated by a form feed."""
        return "\f".join(page.text for page in self.pages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A class of documents: its description in a sentence, and words that indicate it."""

    name: str
    description: str = ""
    cues: Sequence[str] = ()
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The class of a text, the confidence, and the words that decided it."""

    label: str
    score: float
    margin: float
    confidence: str
    """"alta", "media" or "baixa"."""
    quote: str
    """Verbatim from the text."""
    justification: str
    scores: Mapping[str, float] = field(default_factory=dict)
    vector: Sequence[float] | None = field(default=None, repr=False)
    """Where the text lies, for a classifier that is ``Placing``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An item for sale."""

    title: str
    price: Decimal
    currency: str
    source: str
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The result of a price search."""

    offers: Sequence[Offer]
    raw: str
    usage: Usage = _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A stored file: its name, its size, and its hash."""

    name: str
    size: int
    sha256: str


# — protocols —


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
    """Turns texts into vectors of *dimensions* numbers.

    It may also have *unrelated*: the cosine that a question and a text do not reach when they have nothing to do with
    each other. A search then says that nothing answers, instead of the least bad texts.
    """

    provider: str
    model: str
    dimensions: int

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        """One vector per text."""
        ...


@runtime_checkable
class Extractor(Protocol):
    """Reads documents. A *model*, and *parameters* that change the result, are part of a
    request's key when it has any.
    """

    provider: str

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """The content of *file*; *kind* is its type by content, as in "pdf" or "docx"."""
        ...


@runtime_checkable
class Classifier(Protocol):
    """Assigns classes to texts."""

    provider: str
    model: str

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        """One verdict per text."""
        ...


@runtime_checkable
class Placing(Protocol):
    """A classifier that also says where texts lie: its verdicts have vectors, and those of a batch can be judged by
    each other. Vectors of different *spaces* do not mix.
    """

    space: str

    async def place(self, texts: Sequence[str], *, timeout: float) -> Sequence[Sequence[float]]:
        """One vector per text."""
        ...


@runtime_checkable
class PriceSearch(Protocol):
    """Searches for offers. *parameters* that change the result are part of a request's key when it has any; a free
    service has *bills* False.
    """

    provider: str

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """Offers for *query*, as the shop lists them."""
        ...


@runtime_checkable
class BlobStore(Protocol):
    """Stores files under names of our own."""

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        """Store *content* atomically; refused when longer than *most* bytes."""
        ...

    def open(
        self, name: str, *, start: int = 0, length: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The content in pieces: from byte *start* on, *length* bytes or everything that follows. The caller of a
        part knows that it exists.
        """
        ...

    async def delete(self, name: str) -> bool:
        """Delete it; returns whether it existed."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether it exists."""
        ...


def takes_pictures(chat: Chat | None) -> bool:
    """Whether *chat* sees the pictures that go with a message; one that says nothing of it does not."""
    return bool(getattr(chat, "takes_pictures", False))
