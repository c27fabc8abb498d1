"""The held-out set: documents of twelve kinds and short news, made from templates by code, the same every time.

A template belongs to one part, "dev" or "test", and so do all the texts made of it: the weights, label texts and
thresholds of the offline classifier were chosen on "dev", and the figures are told from "test". Texts of one template
are alike, so intervals are taken over templates (:mod:`retoma.bench.evaluation.figures`).
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from retoma.bench.evaluation.heldout.facts import Facts
from retoma.bench.evaluation.heldout.noise import disturbed

__all__ = ["LANGUAGES", "Text", "documents", "news", "strange", "templates"]

LANGUAGES = ("pt", "en")

COPIES = {("kinds", "pt"): 9, ("kinds", "en"): 6, ("topics", "pt"): 6, ("topics", "en"): 6}
"""How many texts are made of each template."""

_MORE = "mais"
"""The heading of the paragraphs that say nothing of the kind."""

_OPTIONAL = "~ "
_QUESTION = "? "
_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
_LEFT_OUT = 0.4
"""How often a line that may be missing is missing."""

_DATELINES = {
    "pt": ("{cidade}, {data} — ", "Da redação em {cidade}: ", "({data}) ", "Atualizado às {hora}. "),
    "en": ("{cidade}, {data} — ", "From our desk in {cidade}: ", "({data}) ", "Updated at {hora}. "),
}
"""How short news may begin."""

_PADDED = (0, 0, 1, 1, 2, 4)
"""How many paragraphs about the matter a text may have: one of these."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text with slots, and the part of the set it belongs to."""

    name: str
    label: str
    language: str
    split: str
    body: str
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """A text whose label is known."""

    label: str
    language: str
    split: str
    template: str
    text: str
    questions: tuple[str, ...] = ()
    """What this text answers; the same slots, the same facts."""


def documents(split: str, language: str, *, copies: int | None = None) -> tuple[Text, ...]:
    """The documents of one part: *copies* of each template, or as many as the figures are told from."""
    return _made("kinds", split, language, copies)


def news(split: str, language: str, *, copies: int | None = None) -> tuple[Text, ...]:
    """The short news of one part, by topic."""
    return _made("topics", split, language, copies)


@cache
def strange(split: str, language: str) -> tuple[str, ...]:
    """Questions that no text of the set has anything to do with."""
    for block in files(__name__).joinpath("strange.txt").read_text(encoding="utf-8").split("## ")[1:]:
        head, *lines = block.strip().split("\n")
        if head.split() == [language, split]:
            return tuple(lines)
    raise ValueError(f"There are no strange questions {language} {split}.")


@cache
def templates(family: str, language: str) -> tuple[Template, ...]:
    """The templates of "kinds" or "topics", with the paragraphs that fill them up."""
    text = files(__name__).joinpath(f"{family}.{language}.txt").read_text(encoding="utf-8")
    found = []
    for number, block in enumerate(text.split("\n## ")[1:]):
        head, *lines = block.strip().split("\n")
        label, _, split = head.rpartition(" ")
        questions = tuple(line.removeprefix(_QUESTION) for line in lines if line.startswith(_QUESTION))
        body = "\n".join(line for line in lines if not line.startswith(_QUESTION))
        found.append(Template(f"{family}.{language}.{number}", label, language, split, body, questions))
    return tuple(found)


@cache
def _made(family: str, split: str, language: str, copies: int | None) -> tuple[Text, ...]:
    every = [each for each in templates(family, language) if each.split == split]
    more = [each.body for each in every if each.label == _MORE]
    count = COPIES[family, language] if copies is None else copies
    written = (
        _written(each, number, more, noisy=family == "kinds")
        for each in every
        if each.label != _MORE
        for number in range(count)
    )
    return tuple({each.text: each for each in written}.values())  # a template with few slots may repeat itself


def _written(template: Template, number: int, more: list[str], *, noisy: bool) -> Text:
    chance = random.Random(f"{template.name}/{number}")  # noqa: S311  # the same text every time
    facts = Facts(template.language, chance)
    lines = [
        line.removeprefix(_OPTIONAL)
        for line in template.body.split("\n")
        if not line.startswith(_OPTIONAL) or chance.random() > _LEFT_OUT
    ]
    padding = chance.sample(more, min(len(more), chance.choice(_PADDED)))
    body = "\n".join(lines).replace("{mais}", "\n".join(padding))
    chosen = _CHOICE.sub(lambda found: chance.choice(found[1].split("|")), body)
    if not noisy and number:
        chosen = chance.choice(_DATELINES[template.language]) + chosen
    text = facts.fill(chosen).strip()
    return Text(
        template.label,
        template.language,
        template.split,
        template.name,
        disturbed(text, template.language, chance) if noisy else text,
        tuple(facts.fill(question) for question in template.questions),
    )
