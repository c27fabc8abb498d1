"""Invented court and office papers whose kinds are known, in several formats, and a few that nobody can read.

The same seed always gives the same bytes. No person, company, town or case in them exists.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random

from retoma.bench.evaluation import labelled
from retoma.bench.evaluation import samples as made

DEADLY = b"\n% retoma demo: whoever opens this file dies\n"
"""At the end of a PDF. The demo's own reader looks for it, and takes its child process down with it."""

SEED = 20260101
"""The one of the usual documents."""

_BLOCK = 8  # as many as there are kinds: each block has one of each
_ENGLISH = 4  # one block in so many is in English
_FORMATS = {"pdf": 11, "docx": 4, "txt": 3, "html": 2}
_DPI = 150


class Fate(StrEnum):
    """What becomes of a document on its way."""

    READ = "read"
    """It is read and told its kind."""
    UNLUCKY = "unlucky"
    """As read, but the provider does not answer the first time round."""
    TRUNCATED = "truncated"
    """The second half of its PDF is missing."""
    GARBLED = "garbled"
    """Its PDF is there, with noise in the middle."""
    ENCRYPTED = "encrypted"
    """Its PDF asks for a password."""
    SCANNED = "scanned"
    """Its PDF holds a picture of a page: only OCR reads it."""
    DEADLY = "deadly"
    """Its reader dies of it."""


# Where each stands, as a share of the whole. The scan is in the second half: OCR is slow, and how slow is too slow is
# measured by the slowest so far.
_PLACES: Sequence[tuple[float, Fate]] = (
    (0.09, Fate.TRUNCATED),
    (0.16, Fate.DEADLY),
    (0.23, Fate.ENCRYPTED),
    (0.31, Fate.GARBLED),
    (0.66, Fate.SCANNED),
    (0.72, Fate.TRUNCATED),
    (0.79, Fate.GARBLED),
    (0.82, Fate.UNLUCKY),
    (0.86, Fate.UNLUCKY),
    (0.90, Fate.UNLUCKY),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A document, the kind it is of, and what becomes of it."""

    name: str
    kind: str
    language: str
    fate: Fate


def write(folder: Path, documents: int, *, seed: int = SEED) -> list[Sample]:
    """Put that many documents into *folder*; what they are, in the order of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    fates = {int(share * documents): fate for share, fate in _PLACES}
    kinds = labelled.kinds()
    found = []
    for start in range(0, documents, _BLOCK):
        language = "en" if (start // _BLOCK) % _ENGLISH == _ENGLISH - 1 else "pt"
        mixed = Random(f"{seed} {start}").sample(kinds, _BLOCK)  # noqa: S311 - invented papers need no secrecy
        for number, kind in enumerate(mixed[: documents - start], start=start):
            chance = Random(f"{seed} {number} {kind}")  # noqa: S311 - as above
            fate = fates.get(number, Fate.READ)
            form = "pdf" if fate is not Fate.READ else chance.choices(list(_FORMATS), list(_FORMATS.values()))[0]
            sample = Sample(f"{number + 1:04}.{form}", kind, language, fate)
            (folder / sample.name).write_bytes(_content(sample, invent(chance, sample.kind, language), chance))
            found.append(sample)
    return found


def _content(sample: Sample, text: str, chance: Random) -> bytes:
    whole = made.MAKERS[sample.name.rpartition(".")[2]](text)
    match sample.fate:
        case Fate.TRUNCATED:
            return whole[: int(len(whole) * 0.55)]
        case Fate.GARBLED:
            third = len(whole) // 3
            return whole[:third] + chance.randbytes(third) + whole[2 * third :]
        case Fate.ENCRYPTED:
            return _encrypted(whole)
        case Fate.SCANNED:
            return scanned(whole)
        case Fate.DEADLY:
            return whole + DEADLY
        case _:
            return whole


def _encrypted(pdf: bytes) -> bytes:
    """The PDF behind a password; an old cipher, because the newer ones begin with a number drawn by chance."""
    import pikepdf  # noqa: PLC0415  # as heavy as the one below, and as seldom needed

    locked = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        opened.save(
            locked,
            encryption=pikepdf.Encryption(owner="owner", user="user", R=3, aes=False, metadata=False),
            static_id=True,
        )
    return locked.getvalue()


def scanned(pdf: bytes) -> bytes:
    """A PDF with a picture of the first page of *pdf*, and no text."""
    import pypdfium2  # type: ignore[import-untyped]  # noqa: PLC0415  # heavy, and needed for one document

    document = pypdfium2.PdfDocument(pdf)
    bitmap = document[0].render(scale=_DPI / 72, grayscale=True)
    pixels = bitmap.to_numpy()
    height, width = pixels.shape[:2]
    packed = zlib.compress(pixels.tobytes())
    document.close()
    picture = b"<</Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8" % (
        width,
        height,
    )
    picture += b"/Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed)
    return made.write_pdf([b"q 595 0 0 842 0 0 cm /Scan Do Q"], objects=[picture], page=b"/XObject<</Scan 4 0 R>>")


# — the texts —


def invent(chance: Random, kind: str, language: str) -> str:
    """A paper of that kind: how it begins, some of what may stand in it, how it ends."""
    parts, details = _parts(language), _Details(chance, language)
    body = parts[kind, "body"]
    paragraphs = [
        chance.choice(parts[kind, "opening"]),
        *chance.sample(body, chance.randint(3, min(7, len(body)))),
        chance.choice(parts[kind, "closing"]),
        "{city}, {date}. {protocol}",
    ]
    # Some names end with a full stop, as some sentences do.
    return "\n\n".join(each.format_map(details).replace("..", ".") for each in paragraphs) + "\n"


@cache
def _parts(language: str) -> Mapping[tuple[str, str], Sequence[str]]:
    whole = files(__package__).joinpath("texts", f"{language}.txt").read_text(encoding="utf-8")
    found = {}
    for block in whole.split("\n## ")[1:]:
        head, *lines = block.strip().split("\n")
        kind, part = head.rsplit(" ", 1)
        found[kind, part] = [line for line in lines if line]
    return found


_PEOPLE = "Fulana|Beltrana|Sicrana|Autora|Pessoa|Parte", "de Tal|Exemplo|Modelo|Fictícia|Inventada|Hipotética"
_COMPANIES = {
    "pt": (
        "Empresa|Comercial|Oficina|Construtora|Transportadora|Papelaria|Distribuidora",
        "Exemplo Ltda.|Modelo S.A.|Fictícia ME|Imaginária Ltda.|Hipotética S.A.",
    ),
    "en": ("Example|Model|Fictional|Imaginary|Sample", "Supplies Inc.|Builders LLC|Freight Ltd.|Stationers Inc."),
}
_TOWNS = "Vila|Serra|Porto|Campo|Monte|Lagoa", "Exemplo|Modelo|de Papel|do Faz de Conta|dos Exemplos"
_MONTHS = {
    "pt": "janeiro|fevereiro|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro",
    "en": "January|February|March|April|May|June|July|August|September|October|November|December",
}


class _Details:
    """Names, sums, dates and numbers, drawn anew each time one is asked for."""

    def __init__(self, chance: Random, language: str) -> None:
        self._chance = chance
        self._language = language

    def __getitem__(self, name: str) -> str:
        return str(getattr(self, f"_{name}")())

    def _both(self, parts: Sequence[str]) -> str:
        return " ".join(self._chance.choice(part.split("|")) for part in parts)

    def _person(self) -> str:
        return self._both(_PEOPLE)

    def _company(self) -> str:
        return self._both(_COMPANIES[self._language])

    def _city(self) -> str:
        return self._both(_TOWNS)

    def _money(self) -> str:
        cents = self._chance.randint(10_000, 9_999_999)
        plain = f"{cents / 100:,.2f}"
        return f"${plain}" if self._language == "en" else "R$ " + plain.translate(str.maketrans(",.", ".,"))

    def _date(self) -> str:
        day, year = self._chance.randint(1, 28), self._chance.randint(2031, 2039)
        month = self._chance.choice(_MONTHS[self._language].split("|"))
        return f"{month} {day}, {year}" if self._language == "en" else f"{day} de {month} de {year}"

    def _n(self) -> int:
        return self._chance.randint(2, 9)

    def _days(self) -> int:
        return self._chance.randint(10, 90)

    def _number(self) -> int:
        return self._chance.randint(1000, 9999)

    def _case(self) -> str:
        # Check digits, court and place of origin are zeros, which no case has.
        return f"{self._chance.randint(1, 9_999_999):07}-00.{self._chance.randint(2031, 2039)}.0.00.0000"

    def _protocol(self) -> str:
        said = "Protocolo" if self._language == "pt" else "Entry"
        return f"{said} {self._chance.getrandbits(48):012x}."
