"""What a heading of a book looks like in Portuguese and English."""

from __future__ import annotations

from dataclasses import dataclass

from retoma.pipelines.books.text.numerals import digits, fold, number, roman, words

CHAPTER = frozenset({"capitulo", "chapter", "canto", "carta", "letter", "licao", "lesson"})
PART = frozenset({"parte", "part", "livro", "book", "volume", "tomo", "titulo", "ato", "act", "jornada"})
BELOW = frozenset({"secao", "section", "cena", "scene"})
EXTRA = frozenset({"anexo", "apendice", "annex", "appendix"})
_NOUNS = CHAPTER | PART | BELOW | EXTRA
_LONE = frozenset({
    "introducao", "prefacio", "prologo", "proemio", "preambulo", "conclusao", "epilogo", "posfacio", "desfecho",
    "consideracoes finais", "apresentacao", "ao leitor", "advertencia", "introduction", "preface", "foreword",
    "prologue", "conclusion", "conclusions", "epilogue", "afterword", "to the reader",
})  # fmt: skip
_LONGEST, _LONGEST_TITLE = 120, 90
_MARKS = 6
_SEPARATORS = {"-", "–", "—", ":", ".", "|", "/"}
_DASHES = ("-", "–", "—")
_LOOSE_WORDS, _NUMERAL_WORDS, _STOPPED_WORDS = 12, 14, 9
_FIRSTS = {
    "primeiro", "primeira", "segundo", "segunda", "terceiro", "terceira", "quarto", "quarta", "quinto", "quinta",
    "sexto", "sexta", "setimo", "setima", "oitavo", "oitava", "nono", "nona", "decimo", "decima", "first", "second",
    "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heading:
    """A line that may be a heading, and what it says."""

    style: str
    """"named", "lone", "roman", "digit", "word", "roman title", "numbered"."""
    number: str = ""
    """As it stands there."""
    value: int = 0
    title: str = ""
    noun: str = ""
    level: int = 0
    """Of a Markdown heading, from 1; 0 when it is none."""
    loose: bool = False
    """Nothing parts number and title, so that it may be the beginning of a sentence."""
    lines: int = 1
    """Over how many it is broken."""


def read(line: str) -> Heading | None:
    """What *line* says as a heading, or nothing when it cannot be one."""
    text, level = _unmarked(line.strip())
    if not text or len(text) > _LONGEST:
        return None
    told = _told(text)
    if level and told is None:
        return Heading("plain", title=text, level=level)
    if level and told is not None:
        return Heading(told.style, told.number, told.value, told.title, told.noun, level)
    return told


def _unmarked(text: str) -> tuple[str, int]:
    """*text* without the marks of Markdown, and the level that they say."""
    level = 0
    while level < len(text) and text[level] == "#":
        level += 1
    if 0 < level <= _MARKS and level < len(text) and text[level].isspace():
        return text[level:].strip().rstrip("#").strip("*_ "), level
    return text.strip("*_ "), 0


def _told(text: str) -> Heading | None:
    if alone := _alone(text):
        return alone
    if text.startswith((*_DASHES, '"', "“", "«")) or text.endswith((",", ";")):
        return None
    tokens = text.split()
    return _named(text, tokens) or _lone(text) or _numbered(text, tokens)


def _alone(text: str) -> Heading | None:
    bare = text.strip(" .-–—*[]()")
    if (value := roman(bare)) is not None:
        return Heading("roman", bare, value)
    if (value := digits(bare)) is not None:
        return Heading("digit", bare, value)
    tokens = bare.split()
    if tokens and bare[0].isupper() and (found := words(tokens)) and found[1] == len(tokens):
        return Heading("word", bare, found[0])
    return None


def _named(text: str, tokens: list[str]) -> Heading | None:
    noun = fold(tokens[0]).strip(".:,")
    if noun == "cap" and tokens[0].endswith("."):
        noun = "capitulo"
    if noun in _FIRSTS and len(tokens) > 1:
        after = fold(tokens[1]).strip(".:,")
        if after in _NOUNS and (found := words(tokens[:1])) and (told := _rest(text, tokens[2:], tokens[1])):
            return Heading("named", tokens[0], found[0], told[0], after, loose=told[1])
        return None
    if noun not in _NOUNS or not tokens[0][0].isupper():
        return None
    place = 1
    if len(tokens) > 2 and fold(tokens[place]).strip(".º°") in {"the", "n", "no"}:  # noqa: PLR2004  # noun, word, number
        place += 1
    found_number = number(tokens[place:], letters=noun in EXTRA | PART)
    if found_number is None:
        return None
    value, count, raw = found_number
    told = _rest(text, tokens[place + count :], tokens[place + count - 1])
    return Heading("named", raw, value, told[0], noun, loose=told[1]) if told else None


def _rest(text: str, rest: list[str], last: str) -> tuple[str, bool] | None:
    """The title after a number, and whether nothing parts them; nothing when it reads like a sentence."""
    parted = last.endswith((".", ":", "-", "–", "—", ")", "/"))
    while rest and rest[0] in _SEPARATORS:
        parted, rest = True, rest[1:]
    title = " ".join(rest).lstrip("-–—:./ ")
    if not title:
        return "", False
    if parted or rest[0][0] in "-–—:/":
        return title, False
    if not title[0].isupper() or text[-1] in ".," or len(rest) > _LOOSE_WORDS:
        return None
    return title, not title.isupper()


def _lone(text: str) -> Heading | None:
    bare = text.rstrip(".: ")
    return Heading("lone", title=bare) if fold(bare) in _LONE and text[0].isupper() else None


def _numbered(text: str, tokens: list[str]) -> Heading | None:
    first, rest = tokens[0], tokens[1:]
    bare = first.rstrip(".)–—-:")
    parted = first != bare
    if rest and rest[0] in _SEPARATORS:
        parted, rest = True, rest[1:]
    title = " ".join(rest).lstrip("-–— ")
    if not title or len(text) > _LONGEST_TITLE or len(rest) > _NUMERAL_WORDS:
        return None
    if not (title[0].isupper() or title[0].isdigit() or title[0] in "“\"'¿«") or title[-1] in ",;:":
        return None
    value, style = roman(bare), "roman title"
    if value is None:
        value, style = digits(bare), "numbered"
    if value is None or (title[-1] == "." and (style == "numbered" or len(rest) > _STOPPED_WORDS)):
        return None
    return Heading(style, bare, value, title.rstrip("."), loose=not parted)
