"""Numbers as books write them: digits, roman numerals, words in Portuguese and English."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,4})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_DIGITS = 4

_UNITS = {
    1: "um uma primeiro primeira one first",
    2: "dois duas segundo segunda two second",
    3: "tres terceiro terceira three third",
    4: "quatro quarto quarta four fourth",
    5: "cinco quinto quinta five fifth",
    6: "seis sexto sexta six sixth",
    7: "sete setimo setima seven seventh",
    8: "oito oitavo oitava eight eighth",
    9: "nove nono nona nine ninth",
    10: "dez decimo decima ten tenth",
    11: "onze eleven eleventh undecimo undecima",
    12: "doze twelve twelfth duodecimo duodecima",
    13: "treze thirteen thirteenth",
    14: "quatorze catorze fourteen fourteenth",
    15: "quinze fifteen fifteenth",
    16: "dezesseis dezasseis sixteen sixteenth",
    17: "dezessete dezassete seventeen seventeenth",
    18: "dezoito eighteen eighteenth",
    19: "dezenove dezanove nineteen nineteenth",
    20: "vinte vigesimo vigesima twenty twentieth",
    30: "trinta trigesimo trigesima thirty thirtieth",
    40: "quarenta quadragesimo quadragesima forty fortieth",
    50: "cinquenta quinquagesimo quinquagesima fifty fiftieth",
    60: "sessenta sexagesimo sexagesima sixty sixtieth",
    70: "setenta septuagesimo septuagesima seventy seventieth",
    80: "oitenta octogesimo octogesima eighty eightieth",
    90: "noventa nonagesimo nonagesima ninety ninetieth",
    100: "cem centesimo centesima hundredth",
}
_WORDS = {word: value for value, words in _UNITS.items() for word in words.split()}
_TEN = 10


def fold(text: str) -> str:
    """*text* in lower case, without accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.lower())
    return "".join(each for each in plain if not unicodedata.combining(each))


def roman(text: str) -> int | None:
    """The value of a roman numeral in capitals, or nothing when it is none."""
    if not text or not _ROMAN.fullmatch(text):
        return None
    values = [_ROMAN_VALUES[each] for each in text]
    following = [*values[1:], 0]
    return sum(-value if value < after else value for value, after in zip(values, following, strict=True))


def digits(text: str) -> int | None:
    """The value of at most four digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def words(tokens: Sequence[str]) -> tuple[int, int] | None:
    """The number that *tokens* begin with, written in words, and how many tokens it takes."""
    parts = [part for token in tokens[:1] for part in fold(token).strip(".,:;").split("-")]
    if len(parts) > 1:
        values = [_WORDS.get(part) for part in parts]
        known = [value for value in values if value is not None]
        return (sum(known), 1) if len(known) == len(values) else None
    first = _WORDS.get(parts[0]) if parts else None
    if first is None:
        return None
    # "décimo primeiro", "vinte e dois": the second is smaller, and says how much is added.
    rest = [fold(token).strip(".,:;") for token in tokens[1:3]]
    skip = 1 if rest[:1] == ["e"] else 0
    if first >= _TEN and first % _TEN == 0 and len(rest) > skip and not tokens[0].endswith((".", ":")):
        second = _WORDS.get(rest[skip])
        if second is not None and second < _TEN:
            return first + second, 2 + skip
    return first, 1


def number(tokens: Sequence[str], *, letters: bool = False) -> tuple[int, int, str] | None:
    """Value, tokens and the text of the number that *tokens* begin with; *letters* allows "A" as 1."""
    if not tokens:
        return None
    bare = tokens[0].strip("[](){}.,:;ºª°/")
    if (value := digits(bare)) is not None:
        return value, 1, bare
    if (value := roman(bare.upper() if len(bare) > 1 and bare.islower() else bare)) is not None:
        return value, 1, bare
    if letters and len(bare) == 1 and bare.isalpha() and bare.isupper():
        return ord(fold(bare)) - ord("a") + 1, 1, bare
    if found := words(tokens):
        value, count = found
        return value, count, " ".join(tokens[:count]).strip(".,:;")
    return None
