"""Exact values in Brazilian papers: numbers with check digits, dates, money, postal codes, licence plates.

A number counts when its check digits are right, a date when the calendar has it, a plate when the word *placa* stands
before it. What merely looks like one is left out: a wrong number is worse than none.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

_CNPJ_WEIGHTS = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
_BASE = 97
_BEFORE = 40
"""Characters before a bare number in which its name is looked for."""

_MONTHS = (
    "janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro",
    "dezembro",
)  # fmt: skip
_MONTH = "|".join((*_MONTHS, "marco"))
_SCALES = {"mil": 1_000, "milhão": 10**6, "milhões": 10**6, "bilhão": 10**9, "bilhões": 10**9}
_NUMERALS = {
    word: value
    for value, words in enumerate((
        "zero", "um primeiro", "dois", "três tres", "quatro", "cinco", "seis", "sete", "oito", "nove", "dez", "onze",
        "doze", "treze", "quatorze catorze", "quinze", "dezesseis", "dezessete", "dezoito", "dezenove",
    ))
    for word in words.split()
} | {
    "vinte": 20, "trinta": 30, "quarenta": 40, "cinquenta": 50, "sessenta": 60, "setenta": 70, "oitenta": 80,
    "noventa": 90, "novecentos": 900,
}  # fmt: skip
_MOST = 500
"""Values of one text: a list of invoices has thousands, and nobody reads them one by one."""

_THIS_CENTURY = 70
_EARLIEST, _LATEST = 1500, 2200
_STATES = {*range(11, 18), *range(21, 30), 31, 32, 33, 35, 41, 42, 43, *range(50, 54)}
_LAST_MONTH = 12


@dataclass(frozen=True, slots=True)
class Found:
    """A value: its *kind*, as it is *written*, its *exact* form, and where it starts."""

    kind: str
    written: str
    exact: str
    start: int


NAMES = {
    "cnpj": "CNPJ",
    "cpf": "CPF",
    "process": "Processo",
    "access_key": "Chave de acesso",
    "cep": "CEP",
    "plate": "Placa",
    "date": "Data",
    "money": "Valor",
}
"""The kinds, and the name of each in a paper."""


def find(text: str) -> list[Found]:
    """The exact values in *text*, in their order; of two that overlap the one of the earlier kind counts."""
    found: list[Found] = []
    taken: list[tuple[int, int]] = []
    for kind, pattern, exact in _KINDS:
        for place in pattern.finditer(text):
            start, end = place.span()
            if any(start < other_end and other < end for other, other_end in taken):
                continue
            if len(found) < _MOST and (value := exact(place)):
                found.append(Found(kind, " ".join(place[0].split()), value, start))
                taken.append((start, end))
    return sorted(found, key=lambda each: each.start)


def value_of(text: str, name: str = "") -> Found | None:
    """The exact value that *text* begins with, when it stands under *name*."""
    before = f"{name}: "
    first = next(iter(find(before + text.strip())), None)
    return first if first is not None and first.start == len(before) else None


# — check digits —


def is_cpf(digits: str) -> bool:
    """Whether eleven *digits* are a CPF."""
    if len(set(digits)) == 1:
        return False
    values = [int(each) for each in digits]
    return all(
        sum(weight * value for weight, value in zip(range(count + 1, 1, -1), values, strict=False)) * 10 % 11 % 10
        == values[count]
        for count in (9, 10)
    )


def is_cnpj(signs: str) -> bool:
    """Whether fourteen *signs* are a CNPJ; since 2026 the first twelve may be letters too."""
    if len(set(signs)) == 1 or not signs[12:].isdigit():
        return False
    values = [ord(each) - ord("0") for each in signs]
    for count in (12, 13):
        rest = sum(weight * value for weight, value in zip(_CNPJ_WEIGHTS[13 - count :], values, strict=False)) % 11
        if values[count] != (0 if rest <= 1 else 11 - rest):
            return False
    return True


def is_process(digits: str) -> bool:
    """Whether twenty *digits* are the number of a lawsuit as the CNJ gives them."""
    number, check, rest = digits[:7], digits[7:9], digits[9:]
    return int(f"{number}{rest}{check}") % _BASE == 1 and digits[13] != "0"


def is_access_key(digits: str) -> bool:
    """Whether forty-four *digits* are the access key of an electronic fiscal document: state, month, check digit."""
    if int(digits[:2]) not in _STATES or not 1 <= int(digits[4:6]) <= _LAST_MONTH:
        return False
    rest = sum((2 + place % 8) * int(each) for place, each in enumerate(reversed(digits[:43]))) % 11
    return int(digits[43]) == (0 if rest <= 1 else 11 - rest)


# — from what is written to what it says —


def _signs(place: re.Match[str]) -> str:
    return "".join(each for each in place[0] if each.isalnum())


def _named(place: re.Match[str], *names: str) -> bool:
    """Whether one of *names* stands shortly before."""
    before = place.string[max(0, place.start() - _BEFORE) : place.start()].casefold()
    return any(name in before for name in names)


def _cpf(place: re.Match[str]) -> str:
    digits = _signs(place)
    if not is_cpf(digits) or not ("-" in place[0] or _named(place, "cpf")):
        return ""
    return f"{digits[:3]}.{digits[3:6]}.{digits[6:9]}-{digits[9:]}"


def _cnpj(place: re.Match[str]) -> str:
    signs = _signs(place)
    if not is_cnpj(signs) or not ("/" in place[0] or _named(place, "cnpj", "cgc")):
        return ""
    return f"{signs[:2]}.{signs[2:5]}.{signs[5:8]}/{signs[8:12]}-{signs[12:]}"


def _process(place: re.Match[str]) -> str:
    digits = _signs(place)
    if not is_process(digits) or not ("-" in place[0] or _named(place, "processo", "autos")):
        return ""
    return f"{digits[:7]}-{digits[7:9]}.{digits[9:13]}.{digits[13]}.{digits[14:16]}.{digits[16:]}"


def _access_key(place: re.Match[str]) -> str:
    digits = _signs(place)
    return digits if is_access_key(digits) else ""


def _cep(place: re.Match[str]) -> str:
    digits = _signs(place)
    if digits == "0" * 8 or not ("-" in place[0] or _named(place, "cep")):
        return ""
    return f"{digits[:5]}-{digits[5:]}"


def _plate(place: re.Match[str]) -> str:
    return _signs(place) if _named(place, "placa") else ""


def _date(year: int, month: int, day: int) -> str:
    try:
        return dt.date(year, month, day).isoformat() if _EARLIEST <= year <= _LATEST else ""
    except ValueError:
        return ""


def _numeric_date(place: re.Match[str]) -> str:
    if place["iso"]:
        return _date(*map(int, place["iso"].split("-")))
    year = int(place["year"])
    if len(place["year"]) == 2:  # noqa: PLR2004  # "26" is 2026, and "98" is 1998
        year += 2000 if year < _THIS_CENTURY else 1900
    return _date(year, int(place["month"]), int(place["day"]))


def _written_date(place: re.Match[str]) -> str:
    month = _MONTHS.index(place["month"].casefold().replace("marco", "março")) + 1
    day = _count(place["day"].removesuffix("º").removesuffix("°").removesuffix("o"), place["day"])
    year = _count(place["year"].replace(".", ""), place["year"])
    return _date(year, month, day) if day and year else ""


def _count(digits: str, words: str) -> int:
    """The number that *digits* or *words* say; 0 when they say none."""
    if digits.isdigit():
        return int(digits)
    count = 0
    for word in words.casefold().split():
        if word == "mil":
            count = max(1, count) * 1_000
        elif word in _NUMERALS:
            count += _NUMERALS[word]
        elif word != "e":
            return 0
    return count


def _money(place: re.Match[str]) -> str:
    written = place["amount"] or place["before"]
    whole, _, cents = written.partition(",")
    value = Decimal(f"{whole.replace('.', '')}.{cents or 0}")
    scale = _SCALES.get((place["scale"] or "").casefold(), 1)
    return f"{value * scale:.2f}"


_AMOUNT = r"(?:\d{1,3}(?:\.\d{3}){1,5}|\d{1,15})(?:,\d{1,4})?"
_DATE = (
    r"(?<![\w/.-])(?:(?P<iso>\d{4}-\d{2}-\d{2})|(?P<day>\d{1,2})(?P<sign>[/.-])(?P<month>\d{1,2})(?P=sign)"
    r"(?P<year>\d{4}|(?<=/)\d{2}))(?![\w/]|[.-]\d)"
)
_IN_WORDS = (
    r"(?<!\w)(?P<day>\d{1,2}[º°o]?|[a-zà-ÿ]{2,9}(?: e [a-zà-ÿ]{2,6})?)(?: dias)?(?: do mês)? de "
    rf"(?P<month>{_MONTH})"
    rf"(?: do ano)? de (?P<year>\d{{4}}|\d\.\d{{3}}|(?:dois mil|mil novecentos)(?: e [a-zà-ÿ]{{3,9}}){{0,2}})(?!\w)"
)
_KINDS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    ("access_key", re.compile(r"(?<!\d)\d{4}(?:[ .]?\d{4}){10}(?!\d)"), _access_key),
    ("process", re.compile(r"(?<![\d.-])\d{7}-?\d{2}\.?\d{4}\.?\d\.?\d{2}\.?\d{4}(?![\d-])"), _process),
    (
        "cnpj",
        re.compile(r"(?<![\w.-])(?:[0-9A-Z]{2}\.[0-9A-Z]{3}\.[0-9A-Z]{3}/[0-9A-Z]{4}-\d{2}|\d{14})(?![\w-])"),
        _cnpj,
    ),
    ("cpf", re.compile(r"(?<![\w.-])(?:\d{3}\.\d{3}\.\d{3}-\d{2}|\d{9}-?\d{2})(?![\w-])"), _cpf),
    ("date", re.compile(_IN_WORDS.replace(" ", r"\s"), re.IGNORECASE), _written_date),
    ("date", re.compile(_DATE), _numeric_date),
    (
        "money",
        re.compile(
            rf"(?:R\$\s{{0,3}}(?P<amount>{_AMOUNT})|(?<![\d.,])(?P<before>{_AMOUNT})(?=\s(?:reais|milhões de reais)))"
            r"(?![\d]|[.,]\d)(?:\s(?P<scale>mil|milhão|milhões|bilhão|bilhões)(?!\w))?",
            re.IGNORECASE,
        ),
        _money,
    ),
    ("cep", re.compile(r"(?<![\w.-])(?:\d{2}\.?\d{3}-\d{3}|\d{8})(?![\w-])"), _cep),
    ("plate", re.compile(r"(?<!\w)[A-Z]{3}[- ]?\d[0-9A-Z]\d{2}(?!\w)"), _plate),
)
