"""What a heading looks like in Portuguese and English."""

from __future__ import annotations

import re
from typing import NamedTuple

_ROMAN = r"(?=[MDCLXVI])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_WORDS = (
    "um|dois|três|quatro|cinco|seis|sete|oito|nove|dez|onze|doze|primeir[oa]|segund[oa]|terceir[oa]|quart[oa]|quint[oa]|"
    "sext[oa]|sétim[oa]|oitav[oa]|non[oa]|décim[oa]|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|"
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
)
_NUMBER = rf"(?P<number>\d{{1,3}}|{_ROMAN}|[A-Z]|{_WORDS})"
_NOUN = (
    r"(?P<noun>cap[ií]tulo|parte|se[cç][aã]o|anexo|ap[eê]ndice|livro|t[ií]tulo|"
    r"chapter|part|section|annex|appendix|book)"
)
_NAMED = re.compile(rf"^{_NOUN}\s+(?:n[º°.o]\s*)?{_NUMBER}[ºªo]?\s*(?:[.:–—-]+\s*(?P<title>\S.*)?|$)", re.IGNORECASE)
_LONE = re.compile(
    r"^(?P<title>introdu[cç][aã]o|pref[aá]cio|pr[oó]logo|conclus[aã]o|ep[ií]logo|considera[cç][oõ]es finais|"
    r"introduction|preface|foreword|prologue|conclusions?|epilogue|afterword)[.:]?$",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"^(?P<marks>#{1,6})\s++(?P<title>\S.*)$")
_NUMBERED = re.compile(r"^(?P<number>\d{1,2})\s*[.)–—-]\s+(?P<title>[A-ZÀ-Ý].*)$")

_LONGEST = 120
_LONGEST_NUMBERED = 80


class Title(NamedTuple):
    """A line that is a heading: how we know, its own number and title, as they stand there."""

    pattern: str
    """"named", "lone", "markdown" with its level, or "numbered"."""

    number: str
    title: str


def read_title(line: str) -> Title | None:
    """*line* parsed as a heading, or None when it is none."""
    line = line.strip()
    if not line or len(line) > _LONGEST:
        return None
    if found := _MARKDOWN.match(line):
        whole = found["title"].rstrip("#").rstrip() or "#"
        inner = read_title(whole) if not whole.startswith("#") else None
        number, title = (inner.number, inner.title) if inner else ("", whole)
        return Title(f"markdown {len(found['marks'])}", number, title)
    if (found := _NAMED.match(line)) and not line.endswith((",", ";")):
        noun = found["noun"].lower()
        # A sentence may begin with these words too: "Parte 2 do valor será paga…" has no sign after its number.
        return Title(f"named {noun}", found["number"], (found["title"] or "").strip() or line)
    if found := _LONE.match(line):
        return Title("lone", "", found["title"])
    if (found := _NUMBERED.match(line)) and len(line) <= _LONGEST_NUMBERED and line[-1] not in ".;,:!?":
        return Title("numbered", found["number"], found["title"])
    return None


def is_chapter_title(line: str) -> bool:
    """Whether *line* names itself a chapter, a part or a section."""
    title = read_title(line)
    return title is not None and title.pattern.startswith(("named", "lone"))
