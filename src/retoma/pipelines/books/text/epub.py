"""A finished book as an EPUB 3: navigation, package, a file per chapter. The same book gives the same bytes."""

from __future__ import annotations

import io
import re
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC
from html import escape

from retoma.pipelines.books.text.finished import FinishedBook, FinishedChapter, heading
from retoma.pipelines.books.text.wording import kind, word

_NAMESPACE = uuid.UUID("5f0c4c34-6d1c-5c0a-9a51-1f7c5d1c8e52")
_CODES = {"pt": "pt-BR", "en": "en"}
_DATE = (2020, 1, 1, 0, 0, 0)
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTAINER = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>\n'
)
_STYLE = (
    "body { line-height: 1.5; margin: 0 5%; }\nh1 { font-size: 1.5em; line-height: 1.2; }\n"
    "h2 { font-size: 1.1em; margin-top: 1.5em; }\nblockquote { border-left: 0.2em solid; margin-left: 0; "
    "padding-left: 1em; }\n.page { font-size: 0.85em; }\n.warning { border: 0.1em solid; padding: 0.5em; }\n"
)


def epub(book: FinishedBook) -> bytes:
    """The file."""
    parts = list(_parts(book))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        # The first file says what this is, as it stands: readers look at these very bytes.
        archive.writestr(zipfile.ZipInfo("mimetype", _DATE), "application/epub+zip", zipfile.ZIP_STORED)
        files = {
            "META-INF/container.xml": _CONTAINER,
            "EPUB/package.opf": _package(book, parts),
            "EPUB/nav.xhtml": _navigation(book, parts),
            "EPUB/style.css": _STYLE,
            **{f"EPUB/{name}": content for name, _, content in parts},
        }
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content.encode(), zipfile.ZIP_DEFLATED)
    return written.getvalue()


Part = tuple[str, str, str]
"""File name, title, content."""


def _parts(book: FinishedBook) -> Iterator[Part]:
    language = book.language
    by = f"<p>{_text(word(language, 'by', author=book.author))}</p>" if book.author else ""
    checked = f"<p>{_text(word(language, 'passed' if book.passed else 'failed'))}</p>"
    yield _part(book, "title.xhtml", book.title, f"{by}{checked}")
    one = word(language, "executive")
    entries = "".join(
        f"<h2>{_text(entry.number if entry.title in ('', entry.number) else f'{entry.number}. {entry.title}')}</h2>"
        f"<ul>{''.join(f'<li>{_text(each)}</li>' for each in entry.points)}</ul>"
        for entry in book.executive
        if entry.points
    )
    yield _part(book, "executive.xhtml", one, entries)
    for place, chapter in enumerate(book.chapters, start=1):
        yield _part(book, f"chapter-{place:04}.xhtml", heading(chapter) or str(place), _chapter(book, chapter))
    yield _part(book, "made-from.xhtml", word(language, "made_from"), _made_from(book))


def _chapter(book: FinishedBook, chapter: FinishedChapter) -> str:
    language, summary = book.language, chapter.summary
    warned = ""
    if not chapter.passed:
        why = " ".join([word(language, "chapter_failed"), *chapter.reasons])
        warned = f'<p class="warning">{_text(why)}</p>'
    paragraphs = "".join(f"<p>{_text(each)}</p>" for each in summary.text.split("\n\n") if each.strip())
    points = "".join(f"<li>{_text(each)}</li>" for each in summary.key_points)
    quoted = "".join(
        f"<blockquote><p>{_text(each.text)}</p>{_page(book, chapter, each.page)}</blockquote>"
        for each in summary.quotations
    )
    given = "".join(f"<li>{_text(each)}</li>" for each in summary.examples)
    excuse = summary.shortfalls.get("exemplos", "")
    last = f"<ul>{given}</ul>" if given else f"<p>{_text(excuse)}</p>" if excuse else ""
    return (
        warned
        + paragraphs
        + "".join(
            f"<section><h2>{_text(word(language, name))}</h2>{content}</section>"
            for name, content in (
                ("points", f"<ul>{points}</ul>" if points else ""),
                ("quotations", quoted),
                ("examples", last),
            )
            if content
        )
    )


def _page(book: FinishedBook, chapter: FinishedChapter, page: int | None) -> str:
    if page is None:
        return ""
    said = _text(word(book.language, "page", page=page))
    link = book.page_link(chapter, page)
    return f'<p class="page">{f"<a href={_quoted(link)}>{said}</a>" if link else said}</p>'


def _made_from(book: FinishedBook) -> str:
    language = book.language
    words = sum(chapter.words for chapter in book.chapters)
    told = [word(language, "read_words", words=words, chapters=len(book.chapters))]
    if book.pages:
        told.insert(0, word(language, "read", read=book.pages_read, pages=book.pages))
    lines = "".join(f"<p>{_text(each)}</p>" for each in told)
    left = "".join(
        f"<li>{_text(word(language, 'left_out_item', kind=kind(language, each.kind), words=each.words))}</li>"
        for each in book.left_out
    )
    return lines + (f"<section><h2>{_text(word(language, 'left_out'))}</h2><ul>{left}</ul></section>" if left else "")


def _part(book: FinishedBook, name: str, title: str, content: str) -> Part:
    return name, title, _page_of(book, title, f"<section><h1>{_text(title)}</h1>{content}</section>")


def _page_of(book: FinishedBook, title: str, body: str) -> str:
    code = _CODES.get(book.language, "en")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" '
        f'lang="{code}" xml:lang="{code}"><head><meta charset="UTF-8"/><title>{_text(title)}</title>'
        f'<link rel="stylesheet" type="text/css" href="style.css"/></head><body>{body}</body></html>\n'
    )


def _navigation(book: FinishedBook, parts: Sequence[Part]) -> str:
    title = word(book.language, "contents")
    entries = "".join(f'<li><a href="{name}">{_text(told)}</a></li>' for name, told, _ in parts)
    return _page_of(book, title, f'<nav epub:type="toc" id="toc"><h1>{_text(title)}</h1><ol>{entries}</ol></nav>')


def _package(book: FinishedBook, parts: Sequence[Part]) -> str:
    code = _CODES.get(book.language, "en")
    identifier = uuid.uuid5(_NAMESPACE, book.session)
    modified = book.finished_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    creator = f"<dc:creator>{_text(book.author)}</dc:creator>" if book.author.strip() else ""
    items = "".join(
        f'<item id="part-{place}" href="{name}" media-type="application/xhtml+xml"/>'
        for place, (name, _, _) in enumerate(parts, start=1)
    )
    spine = "".join(f'<itemref idref="part-{place}"/>' for place in range(1, len(parts) + 1))
    access = (
        '<meta property="schema:accessMode">textual</meta>'
        '<meta property="schema:accessModeSufficient">textual</meta>'
        '<meta property="schema:accessibilityFeature">tableOfContents</meta>'
        '<meta property="schema:accessibilityFeature">structuralNavigation</meta>'
        '<meta property="schema:accessibilityHazard">none</meta>'
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<package xmlns="http://www.idpf.org/2007/opf" version="3.0" '
        f'unique-identifier="id" xml:lang="{code}"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f'<dc:identifier id="id">urn:uuid:{identifier}</dc:identifier><dc:title>{_text(book.title)}</dc:title>'
        f'<dc:language>{code}</dc:language>{creator}<meta property="dcterms:modified">{modified}</meta>{access}'
        '</metadata><manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        f'<item id="style" href="style.css" media-type="text/css"/>{items}</manifest><spine>{spine}</spine></package>\n'
    )


def _text(text: str) -> str:
    """*text* for XML: escaped, without what XML forbids, and never empty."""
    return escape(_FORBIDDEN.sub("", " ".join(text.split())) or "–", quote=False)


def _quoted(text: str) -> str:
    return f'"{escape(_FORBIDDEN.sub("", text))}"'
