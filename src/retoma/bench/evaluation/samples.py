"""Small documents of every kind, made here: to measure the readers against texts that are known."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from xml.sax.saxutils import escape

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_P = "http://schemas.openxmlformats.org/presentationml/2006/main"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_LINES_PER_PAGE = 50
_LINE = 88


def wrapped(text: str, width: int = _LINE) -> list[str]:
    """*text* in lines, as a page has them."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split():
            if line and len(line) + 1 + len(word) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        lines.append(line)
    return lines


def pdf(text: str, *, outline: Sequence[tuple[str, int]] = ()) -> bytes:
    """A PDF with a text layer; it needs no font file, for every reader has Helvetica."""
    lines = wrapped(text)
    pages = [lines[start : start + _LINES_PER_PAGE] for start in range(0, len(lines), _LINES_PER_PAGE)]
    return write_pdf([_page_stream(page) for page in pages], outline=outline)


def _page_stream(lines: Sequence[str]) -> bytes:
    return set_text(56, 780, 11, lines)


def set_text(x: float, y: float, size: float, lines: Sequence[str]) -> bytes:
    """The part of a content stream that sets *lines* below each other, the first one at *x* and *y*."""
    told = (
        line.encode("cp1252", "replace").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        for line in lines
    )
    begun = b"BT /F1 %g Tf %g TL %g %g Td " % (size, round(size * 14 / 11, 2), x, y)
    return begun + b" ".join(b"(" + line + b") Tj T*" for line in told) + b" ET"


def write_pdf(
    streams: Sequence[bytes],
    *,
    outline: Sequence[tuple[str, int]] = (),
    objects: Sequence[bytes] = (),
    page: bytes = b"",
) -> bytes:
    """A PDF of these content streams; *objects* come before them, from number 4 on, and *page* goes into each page."""
    bodies = [b"", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>", *objects]
    kids = []
    for stream in streams:
        bodies.append(b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream))
        bodies.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>%b>>/Contents %d 0 R>>"
            % (page, len(bodies))
        )
        kids.append(len(bodies))
    catalog = b"<</Type/Catalog/Pages 2 0 R"
    if outline:
        first = len(bodies) + 2
        bodies.append(
            b"<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>" % (first, first + len(outline) - 1, len(outline))
        )
        catalog += b"/Outlines %d 0 R" % len(bodies)
        for place, (title, number) in enumerate(outline):
            following = b"/Next %d 0 R" % (first + place + 1) if place + 1 < len(outline) else b""
            name = b"\xfe\xff" + title.encode("utf-16-be")
            bodies.append(
                b"<</Title<%b>/Parent %d 0 R/Dest[%d 0 R/Fit]%b>>"
                % (name.hex().encode(), first - 1, kids[number - 1], following)
            )
    bodies[0] = catalog + b">>"
    bodies[1] = b"<</Type/Pages/Kids[%b]/Count %d>>" % (b" ".join(b"%d 0 R" % kid for kid in kids), len(kids))
    return assemble_pdf(bodies)


def assemble_pdf(bodies: Sequence[bytes]) -> bytes:
    """The objects one after the other, and where each of them is."""
    whole, places = b"%PDF-1.7\n", []
    for number, body in enumerate(bodies, start=1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    return whole + b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF\n" % (
        len(bodies) + 1,
        rows,
        len(bodies) + 1,
        len(whole),
    )


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    """An archive of *members*."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            # With a date of its own, and not today's: the same members are the same bytes.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def docx(text: str) -> bytes:
    """A DOCX with one paragraph for each line."""
    body = "".join(f'<w:p><w:r><w:t xml:space="preserve">{escape(line)}</w:t></w:r></w:p>' for line in text.split("\n"))
    return zipped({"word/document.xml": f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>'})


def pptx(text: str) -> bytes:
    """A PPTX with one slide for each paragraph."""
    slides = [slide for slide in text.split("\n\n") if slide.strip()]
    members = {
        "ppt/presentation.xml": f'<p:presentation xmlns:p="{_P}" xmlns:r="{_R}"><p:sldIdLst>'
        + "".join(f'<p:sldId id="{256 + n}" r:id="r{n}"/>' for n in range(len(slides)))
        + "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": f'<Relationships xmlns="{_PACKAGE}">'
        + "".join(
            f'<Relationship Id="r{n}" Type="{_R}/slide" Target="slides/slide{n}.xml"/>' for n in range(len(slides))
        )
        + "</Relationships>",
    }
    for number, slide in enumerate(slides):
        paragraphs = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in slide.split("\n"))
        members[f"ppt/slides/slide{number}.xml"] = (
            f'<p:sld xmlns:p="{_P}" xmlns:a="{_A}"><p:cSld><p:spTree><p:sp><p:txBody>{paragraphs}</p:txBody></p:sp>'
            "</p:spTree></p:cSld></p:sld>"
        )
    return zipped(members)


def epub(text: str) -> bytes:
    """An EPUB of one part."""
    body = "".join(f"<p>{escape(line)}</p>" for line in text.split("\n"))
    return zipped(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="book.opf"/></rootfiles></container>',
            "book.opf": '<package><manifest><item id="a" href="a.xhtml"/></manifest>'
            '<spine><itemref idref="a"/></spine></package>',
            "a.xhtml": f"<html><body>{body}</body></html>",
        }
    )


def html(text: str) -> bytes:
    """A page with a menu and a script that are no part of the text."""
    body = "".join(f"<p>{escape(line)}</p>" for line in text.split("\n"))
    page = (
        f"<!doctype html><html><head><title>t</title></head><body><nav>Menu</nav>{body}<script>x</script></body></html>"
    )
    return page.encode()


def xlsx(text: str) -> bytes:
    """A workbook with one row for each line."""
    import openpyxl  # type: ignore[import-untyped]  # noqa: PLC0415  # only this one needs it

    book = openpyxl.Workbook()
    for line in text.split("\n"):
        book.active.append([line])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def odt(text: str) -> bytes:
    """An ODT with one paragraph for each line."""
    office, said = (f"urn:oasis:names:tc:opendocument:xmlns:{each}:1.0" for each in ("office", "text"))
    body = "".join(f"<text:p>{escape(line)}</text:p>" for line in text.split("\n"))
    content = (
        f'<office:document-content xmlns:office="{office}" xmlns:text="{said}"><office:body><office:text>{body}'
        "</office:text></office:body></office:document-content>"
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), "application/vnd.oasis.opendocument.text")  # first, not packed
        archive.writestr(zipfile.ZipInfo("content.xml"), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def rtf(text: str) -> bytes:
    """An RTF with one paragraph for each line."""
    plain = text.replace("\\", "\\\\").replace("{", "\\{").replace("}", "\\}").replace("\n", "\\par\n")
    said = "".join(each if ord(each) < 128 else f"\\u{ord(each)}?" for each in plain)  # noqa: PLR2004 - ASCII
    return ("{\\rtf1\\ansi\\ansicpg1252{\\fonttbl{\\f0 Arial;}}\\f0 " + said + "}").encode("ascii")


def eml(text: str) -> bytes:
    """A mail."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", "-"
    mail.set_content(text)
    return mail.as_bytes()


MAKERS: Mapping[str, Callable[[str], bytes]] = {
    "pdf": pdf,
    "docx": docx,
    "xlsx": xlsx,
    "pptx": pptx,
    "odt": odt,
    "rtf": rtf,
    "eml": eml,
    "epub": epub,
    "html": html,
    "txt": lambda text: text.encode(),
}
"""For each kind that is made of text, a document that says *text*."""
