"""RTF: the text that a person reads, paragraph by paragraph and row by row, without pictures, styles and what the
program notes for itself.

The file is a sequence of groups, control words and characters. It is read once, from the beginning to the end, and how
deep the groups go costs a list, not a recursion.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from retoma.providers import Extraction, Page
from retoma.providers.local import limits, markup
from retoma.providers.local.errors import DocumentDamaged, TextTooLong
from retoma.providers.local.trail import Trail

_TOKEN = re.compile(
    rb"(?P<open>\{)|(?P<close>\})"
    rb"|\\'(?P<byte>[0-9a-fA-F]{2})"
    rb"|\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?[0-9]{1,10})?[ ]?"
    rb"|\\(?P<sign>[^a-zA-Z])"
    rb"|(?P<break>[\r\n]+)"
    rb"|(?P<text>[^{}\\\r\n]+)",
    re.DOTALL,
)
_NOT_TEXT = {
    "fonttbl", "colortbl", "stylesheet", "listtable", "listoverridetable", "revtbl", "rsidtbl", "generator", "info",
    "pict", "object", "objdata", "themedata", "colorschememapping", "datastore", "latentstyles", "xmlnstbl", "filetbl",
    "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf", "fldinst", "annotation",
    "bkmkstart", "bkmkend", "nonshppict", "mmathPr", "pgdsctbl",
}  # fmt: skip
_BETWEEN_CELLS = " | "
_SPOKEN = {
    "par": "\n", "line": "\n", "sect": "\n\n", "page": "\n\n", "row": "\n", "nestrow": "\n",
    "cell": _BETWEEN_CELLS, "nestcell": _BETWEEN_CELLS, "tab": "\t", "emdash": "—", "endash": "–", "lquote": "‘",
    "rquote": "’", "ldblquote": "“", "rdblquote": "”", "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " ",
}  # fmt: skip
_SIGNS = {"~": "\u00a0", "_": "-", "-": "", "{": "{", "}": "}", "\\": "\\", "\n": "\n", "\r": "\n", "\t": "\t"}
_LAST_BMP, _SIGNED = 0xFFFF, 0x10000


@dataclass(frozen=True, slots=True)
class _Group:
    """What holds until the group closes."""

    silent: bool = False
    note: bool = False
    """Whether it is a footnote: those stand apart, below the text."""
    in_table: bool = False
    fallback: int = 1
    """How many characters after a Unicode one repeat it for older programs."""


@dataclass(slots=True)
class _Reading:
    """The text so far, and what the next characters mean."""

    encoding: str = "cp1252"
    group: _Group = field(default_factory=_Group)
    outer: list[_Group] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    length: int = 0
    bytes_: bytearray = field(default_factory=bytearray)
    """Characters of the code page that are not decoded yet: one may be two bytes long."""
    repeated: int = 0
    """How many characters are still to be left out, because a Unicode one said the same."""

    @property
    def told(self) -> list[str]:
        """Where the text of this group goes."""
        return self.notes if self.group.note else self.said

    def say(self, text: str) -> None:
        self.flush()
        if not self.group.silent:
            self.told.append(text)
            self.length += len(text)

    def flush(self) -> None:
        if self.bytes_:
            text, self.bytes_ = self.bytes_.decode(self.encoding, "replace"), bytearray()
            self.told.append(text)
            self.length += len(text)

    def hear(self, content: bytes) -> None:
        """Characters of the code page."""
        left_out = min(self.repeated, len(content))
        self.repeated -= left_out
        if not self.group.silent:
            self.bytes_ += content[left_out:]

    def enter(self) -> None:
        self.flush()
        self.repeated = 0
        self.outer.append(self.group)

    def leave(self) -> None:
        self.flush()
        self.repeated = 0
        self.group = self.outer.pop() if self.outer else _Group(silent=True)


def read(file: Path, trail: Trail) -> Extraction:
    """The whole document as one page: page breaks depend on the printer."""
    trail.at("rtf")
    if (size := file.stat().st_size) > limits.TEXT * 4:
        raise TextTooLong(f"{file.name} has {size:,} bytes of RTF.", next="Split it.")
    pages = (Page(number=1, text=markup.clean(text_of(file.read_bytes(), file.name))),)
    markup.check_size(file.name, pages)
    return Extraction(pages=pages, reader="rtf")


def text_of(content: bytes, name: str) -> str:
    """The text of an RTF document."""
    if not content.lstrip().startswith(b"{\\rtf"):
        raise DocumentDamaged(f"{name} does not begin as RTF does.", next="Save it anew.", reader="rtf")
    reading, place = _Reading(), 0
    while token := _TOKEN.match(content, place):
        place = token.end()
        match token.lastgroup:
            case "open":
                reading.enter()
            case "close":
                reading.leave()
            case "byte":
                reading.hear(bytes.fromhex(token["byte"].decode()))
            case "word" | "number":
                place += _word(reading, token["word"].decode(), int(token["number"] or 0), token["number"] is not None)
            case "sign":
                _sign(reading, token["sign"].decode("latin-1"))
            case "text":
                reading.hear(token["text"])
        if reading.length > limits.TEXT:
            raise TextTooLong(f"{name} has more than {limits.TEXT:,} characters.", next="Split the document.")
    reading.flush()
    return "".join([*reading.said, *reading.notes])


def _word(reading: _Reading, word: str, number: int, has_number: bool) -> int:
    """Do what *word* says; returns how many bytes of the file it takes along."""
    if word == "u" and has_number:
        _unicode(reading, number)
    elif word == "uc":
        reading.group = replace(reading.group, fallback=max(0, min(number, 10)))
    elif word == "ansicpg":
        reading.encoding = _code_page(number)
    elif word == "bin":
        return max(0, number)
    elif word in _NOT_TEXT:
        reading.flush()
        reading.group = replace(reading.group, silent=True)
    elif word == "footnote":
        reading.flush()
        # Some programs announce it as a destination that others do not know. It is silent only inside of such a one.
        silent = bool(reading.outer) and reading.outer[-1].silent
        reading.group = replace(reading.group, note=True, silent=silent)
        reading.say("\n")
    elif word in ("pard", "intbl"):
        reading.group = replace(reading.group, in_table=word == "intbl")
    elif spoken := _SPOKEN.get(word):
        _speak(reading, word, spoken)
    return 0


def _speak(reading: _Reading, word: str, spoken: str) -> None:
    if word == "par" and reading.group.in_table:  # a row is one line
        spoken = " "
    reading.flush()
    # A paragraph may end where its cell ends, and the last cell of a row ends like every other.
    needless = {_BETWEEN_CELLS: " ", "\n": _BETWEEN_CELLS}.get(spoken)
    if needless is not None and reading.told[-1:] == [needless]:
        reading.told.pop()
    reading.say(spoken)


def _sign(reading: _Reading, sign: str) -> None:
    if sign == "*":  # a destination that older programs do not know, and that holds no text of the document
        reading.flush()
        reading.group = replace(reading.group, silent=True)
    elif sign in _SIGNS:
        reading.say(_SIGNS[sign])


def _unicode(reading: _Reading, number: int) -> None:
    code = number + _SIGNED if number < 0 else number
    if 0 <= code <= _LAST_BMP:
        # Half of a pair is said as it is; both halves together are one character.
        reading.say(chr(code))
        _join_pair(reading.told)
    reading.repeated = reading.group.fallback


def _join_pair(said: list[str]) -> None:
    if len(said) > 1 and "\ud800" <= said[-2] <= "\udbff" and "\udc00" <= said[-1] <= "\udfff":
        said[-2:] = [(said[-2] + said[-1]).encode("utf-16", "surrogatepass").decode("utf-16", "replace")]


def _code_page(number: int) -> str:
    name = "utf-8" if number == 65001 else f"cp{number}"  # noqa: PLR2004 - the number of UTF-8 as a code page
    try:
        codecs.lookup(name)
    except LookupError:
        return "cp1252"
    return name
