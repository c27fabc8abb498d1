"""PDF files, the least of them: text, lines, pictures and one attachment, the same bytes for the same content.

Nothing is packed here: another packer would write other bytes, and a report is verified by writing it again.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

WIDTH, HEIGHT = 595.0, 842.0
"""A4, in points."""

# The widths of Helvetica from the blank to the tilde, in thousandths of its size.
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
)  # fmt: skip
_OTHER_WIDTH = 600
_BOLDER = 1.08
_PNG = b"\x89PNG\r\n\x1a\n"
_COLOURS = {0: (1, "/DeviceGray"), 2: (3, "/DeviceRGB")}
_MOST_PIXELS = 20_000


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG that can stand in a PDF as it is."""

    width: int
    height: int
    colours: int
    space: str
    data: bytes


@dataclass(slots=True)
class Page:
    """A page that is being written; y grows upwards."""

    parts: list[str] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)

    def text(self, x: float, y: float, told: str, *, size: float = 8, bold: bool = False) -> None:
        """Write one line."""
        self.parts.append(f"BT /F{2 if bold else 1} {size:g} Tf {x:.2f} {y:.2f} Td ({_escaped(told)}) Tj ET")

    def line(self, x: float, y: float, x2: float, y2: float, *, width: float = 0.5) -> None:
        """Draw a line."""
        self.parts.append(f"{width:g} w {x:.2f} {y:.2f} m {x2:.2f} {y2:.2f} l S")

    def picture(self, number: int, x: float, y: float, width: float, height: float) -> None:
        """Put the picture with *number* there."""
        self.pictures.append(number)
        self.parts.append(f"q {width:.2f} 0 0 {height:.2f} {x:.2f} {y:.2f} cm /I{number} Do Q")


def measure(told: str, size: float, *, bold: bool = False) -> float:
    """How wide a line is, in points."""
    return _points(sum(map(_width, told)), size, bold=bold)


def _points(units: int, size: float, *, bold: bool) -> float:
    return units * size / 1000 * (_BOLDER if bold else 1)


def wrap(told: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """*told* in lines no wider than *width*; a word that is wider is broken."""
    lines, line = [], ""
    for word in told.split():
        pieces = list(_broken(word, width, size, bold=bold))
        for piece in pieces:
            tried = f"{line} {piece}" if line and piece is pieces[0] else piece if not line else None
            if tried is not None and measure(tried, size, bold=bold) <= width:
                line = tried
            else:
                lines += [line] if line else []
                line = piece
    return [*lines, line] if line or not lines else lines


def png(content: bytes) -> Picture | None:
    """The picture in *content*; None for one of a kind that would have to be unpacked."""
    if not content.startswith(_PNG) or len(content) < 33:  # noqa: PLR2004 - a signature and a header
        return None
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", content[16:29])
    if depth != 8 or kind not in _COLOURS or interlaced or not 0 < max(width, height) <= _MOST_PIXELS:  # noqa: PLR2004
        return None
    colours, space = _COLOURS[kind]
    return Picture(width, height, colours, space, b"".join(_image_data(content)))


def write(pages: list[Page], pictures: list[Picture], *, title: str, attached: tuple[str, bytes]) -> bytes:
    """The file."""
    objects: list[bytes] = [b""] * 7
    name, content = attached
    info = f"<< /Title ({_escaped(title)}) /Producer (Retoma) >>"
    fonts = "/F1 3 0 R /F2 4 0 R"
    images = len(objects) + 1
    first = images + len(pictures)
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    objects[0] = (
        b"<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names ["
        + f"({_escaped(name)}) 6 0 R] >> >> >>".encode("latin-1")
    )
    objects[1] = f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode()
    for place, font in ((2, "Helvetica"), (3, "Helvetica-Bold")):
        objects[place] = f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>".encode()
    objects[4] = info.encode("latin-1")
    objects[5] = f"<< /Type /Filespec /F ({_escaped(name)}) /UF ({_escaped(name)}) /EF << /F 7 0 R >> >>".encode(
        "latin-1"
    )
    objects[6] = _stream(content, "/Type /EmbeddedFile /Subtype /application#2Fjson")
    objects += [_image(each) for each in pictures]
    for number, page in enumerate(pages):
        used = " ".join(f"/I{each} {images + each} 0 R" for each in sorted(set(page.pictures)))
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH:g} {HEIGHT:g}] /Contents {first + 2 * number + 1} 0 R "
            f"/Resources << /Font << {fonts} >> /XObject << {used} >> >> >>".encode()
        )
        objects.append(_stream("\n".join(page.parts).encode("latin-1"), ""))
    return _file(objects)


def _file(objects: list[bytes]) -> bytes:
    told = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, each in enumerate(objects, start=1):
        places.append(len(told))
        told += f"{number} 0 obj\n".encode() + each + b"\nendobj\n"
    start = len(told)
    told += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    told += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    told += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 5 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(told)


def _image(picture: Picture) -> bytes:
    return _stream(
        picture.data,
        f"/Type /XObject /Subtype /Image /Width {picture.width} /Height {picture.height} /ColorSpace {picture.space} "
        "/BitsPerComponent 8 /Filter /FlateDecode /DecodeParms << /Predictor 15 "
        f"/Colors {picture.colours} /BitsPerComponent 8 /Columns {picture.width} >>",
    )


def _stream(content: bytes, told: str) -> bytes:
    return f"<< {told} /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"


def _image_data(content: bytes) -> Iterator[bytes]:
    place = len(_PNG)
    while place + 8 <= len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        if content[place + 4 : place + 8] == b"IDAT":
            yield content[place + 8 : place + 8 + length]
        place += 12 + length


def _escaped(told: str) -> str:
    """*told* in the letters of the font, as latin-1 text of which each character is one byte."""
    plain = "".join(letter if letter.isprintable() else " " for letter in told)
    coded = plain.encode("windows-1252", "replace").decode("latin-1")
    return coded.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


@lru_cache(maxsize=4096)
def _width(letter: str) -> int:
    base = unicodedata.normalize("NFD", letter)[0]
    place = ord(base) - 32
    return _WIDTHS[place] if 0 <= place < len(_WIDTHS) else _OTHER_WIDTH


def _broken(word: str, width: float, size: float, *, bold: bool) -> Iterator[str]:
    piece, units = "", 0
    for letter in word:
        units += _width(letter)
        if piece and _points(units, size, bold=bold) > width:
            yield piece
            piece, units = "", _width(letter)
        piece += letter
    yield piece
