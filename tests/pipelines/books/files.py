"""The same book as a text, a PDF and an EPUB."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import made_books

from retoma.pipelines.books.text.pdf import Block, pdf

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def chapters(count: int = 3, words: int = 700, seed: int = 5) -> list[tuple[str, list[str]]]:
    """Titles, and the paragraphs below them."""
    writer = made_books.Writer(seed)
    noun = writer.word("chapter")
    return [(f"{noun} {n}: {writer.title()}", writer.paragraphs(words)) for n in range(1, count + 1)]


def as_text(told: list[tuple[str, list[str]]]) -> bytes:
    return "\n\n".join("\n\n".join([title, *paragraphs]) for title, paragraphs in told).encode()


def as_pdf(told: list[tuple[str, list[str]]]) -> bytes:
    blocks = [
        block
        for title, paragraphs in told
        for block in (Block("heading", title), *(Block("text", each) for each in paragraphs))
    ]
    return pdf(blocks, title="A salina", language="pt-BR")


def as_epub(told: list[tuple[str, list[str]]]) -> bytes:
    names = [f"p{n}" for n in range(1, len(told) + 1)]
    items = (
        "".join(f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in names)
        + '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    entries = "".join(
        f'<li><a href="{name}.xhtml">{title}</a></li>' for name, (title, _) in zip(names, told, strict=True)
    )
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "book.opf": f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><manifest>{items}</manifest>'
        f"<spine>{spine}</spine></package>",
        "nav.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>'
        f'<nav epub:type="toc"><ol>{entries}</ol></nav></body></html>',
    }
    for name, (title, paragraphs) in zip(names, told, strict=True):
        body = "".join(f"<p>{each}</p>" for each in paragraphs)
        parts[f"{name}.xhtml"] = (
            f'<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>{title}</h1>{body}</body></html>'
        )
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return kept.getvalue()


FILES = {"livro.txt": as_text, "livro.pdf": as_pdf, "livro.epub": as_epub}
