"""EML: who wrote to whom, when and about what, then the text of the mail. Attachments are named and not read."""

from __future__ import annotations

from collections.abc import Iterator
from email import policy
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import kinds, limits, markup
from retoma.providers.local.errors import DocumentDamaged, TextTooLong
from retoma.providers.local.readers import html
from retoma.providers.local.trail import Trail

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_PARTS = 1_000


def read(file: Path, trail: Trail) -> Extraction:
    """The mail as one page."""
    trail.at("mail")
    if (size := file.stat().st_size) > limits.UNPACKED:
        raise TextTooLong(f"{file.name} has {size:,} bytes.", next="Send its attachments one by one.")
    try:
        with file.open("rb") as content:
            mail = BytesParser(EmailMessage, policy=policy.default).parse(content)
        lines, tables = _lines(mail, file.name)
    except (MessageError, ValueError, IndexError, KeyError, AttributeError, RecursionError) as error:
        # The parser of the standard library is lenient, and what it still stumbles over it raises as it is.
        raise DocumentDamaged(
            f"{file.name} is a damaged mail: {type(error).__name__}.", next="Save it anew.", reader="mail"
        ) from error
    pages = (Page(number=1, text=markup.clean("\n".join(lines))),)
    markup.check_size(file.name, pages, tables)
    return Extraction(pages=pages, tables=tuple(tables), reader="mail")


def _lines(mail: EmailMessage, name: str) -> tuple[list[str], list[Table]]:
    lines = [f"{header}: {' '.join(str(mail[header]).split())}" for header in _HEADERS if mail[header]]
    texts, others, tables = [], [], list[Table]()
    for part in _leaves(mail, name):
        if part.get_filename() or part.get_content_maintype() != "text":
            others.append(part)
        else:
            texts.append(part)
    shown = [each for each in texts if each.get_content_subtype() != "html"] or texts
    for part in shown:
        text, found = _text(part, name)
        lines += ["", text]
        tables += found
    named = [each.get_filename() or each.get_content_type() for each in others]
    return lines + ([""] + [f"[{' '.join(str(each).split())}]" for each in named] if named else []), tables


def _leaves(mail: EmailMessage, name: str) -> Iterator[EmailMessage]:
    """The parts that hold something themselves. Without recursion, because the file decides the depth."""
    waiting, seen = [mail], 0
    while waiting:
        part = waiting.pop(0)
        seen += 1
        if seen > _PARTS:
            raise TextTooLong(f"{name} has more than {_PARTS:,} parts.", next="Send its attachments one by one.")
        inside = part.get_payload()
        if isinstance(inside, list):
            waiting[:0] = [each for each in inside if isinstance(each, EmailMessage)]
        else:
            yield part


def _text(part: EmailMessage, name: str) -> tuple[str, list[Table]]:
    content = part.get_payload(decode=True)
    raw = content if isinstance(content, bytes) else b""
    text = _decoded(raw, part.get_content_charset())
    if part.get_content_subtype() == "html" and text.strip():
        said, _, tables = html.parts_of(text, name, page=1)
        return said, tables
    return text, []


def _decoded(raw: bytes, charset: str | None) -> str:
    try:
        return raw.decode(charset or "ascii")
    except (LookupError, UnicodeDecodeError):
        return kinds.decode(raw) or raw.decode("cp1252", "replace")
