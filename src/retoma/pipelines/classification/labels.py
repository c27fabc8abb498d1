"""The categories in a prompt: how they are written, how they are read, and the ones that come with the house.

A category is a line of its own: ``- name: description; word, word``. The words that give it away may be left out; one
that holds a comma stands in double quotes. ``- name > part: description`` is a subcategory. Where a prompt has a block
fenced as ``categorias``, every line in it is one and what cannot be read is refused; otherwise the lines that look so
are taken, wherever they stand.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from retoma.errors import ConfigurationError
from retoma.providers import Label

DEFAULT_NAME = "Tipos de documento"
SUB = " > "
LOCAL = "local"
"""The model that is this machine itself."""
LONGEST_PROMPT = 100_000
"""Characters, by whatever way it comes."""

# Each looks at a character once, however long the text is: a prompt is read by the server, among other requests.
_OPENING = re.compile(r"^```(?:categorias|labels)[ \t]*+\n", re.MULTILINE)
_CLOSING = re.compile(r"^```[ \t]*+$", re.MULTILINE)
_LINE = re.compile(r"^[-*][ \t]++(?P<name>[^:;\n]++):[ \t]*+(?P<rest>\S.*)$")
_LONGEST_LINE_NAME = 100
_MOST = 100
_LONGEST = 200

_ASKED = """\
Você classifica documentos de um acervo jurídico e administrativo. Leia o documento e diga de que tipo ele é. Escolha \
uma só das categorias abaixo, a que melhor descreve o documento como um todo, e justifique em uma frase com palavras \
do próprio documento. Se nada for claro, escolha a mais próxima e diga que a confiança é baixa."""


def house_labels() -> tuple[Label, ...]:
    """The categories that come with the house."""
    text = files(__package__).joinpath("labels.json").read_text(encoding="utf-8")
    return tuple(
        Label(name=each["name"], description=each["description"], cues=tuple(each["cues"])) for each in json.loads(text)
    )


def parsed(content: str) -> tuple[Label, ...]:
    """The categories that a prompt names; none when it names none, or only one without a block."""
    if len(content) > LONGEST_PROMPT:
        raise ConfigurationError(
            f"A prompt has at most {LONGEST_PROMPT:,} characters, and this one has {len(content):,}.",
            next="Leave out what the categories do not need.",
        )
    block = _block(content)
    lines = [line.strip() for line in (content if block is None else block).splitlines()]
    if block is not None:
        found = [_label(line, strict=True) for line in lines if line]
    else:
        found = [_label(line, strict=False) for line in lines if line.startswith(("-", "*"))]
    labels = [label for label in found if label is not None]
    if block is None and len(labels) < 2:  # noqa: PLR2004 - a single line with a colon is prose
        return ()
    checked(labels)
    return tuple(labels)


def _block(content: str) -> str | None:
    """What stands in the first block of categories, if there is one that ends."""
    opening = _OPENING.search(content)
    closing = _CLOSING.search(content, opening.end()) if opening else None
    return content[opening.end() : closing.start()] if opening and closing else None


def _label(line: str, *, strict: bool) -> Label | None:
    match = _LINE.match(line)
    if match is None or len(match["name"].rstrip()) > _LONGEST_LINE_NAME:
        if not strict:
            return None
        raise ConfigurationError(
            f"This line of the block of categories cannot be read: {line[:80]!r}.",
            next="Write '- name: description; word, word'.",
        )
    description, _, words = match["rest"].partition(";")
    cues = [cue.strip() for row in csv.reader([words], skipinitialspace=True) for cue in row if cue.strip()]
    name = SUB.join(part.strip() for part in match["name"].split(">"))
    return Label(
        name=name,
        description=description.strip(),
        cues=tuple(cues),
        parent=name.partition(SUB)[0] if SUB in name else None,
    )


def checked(labels: Sequence[Label]) -> None:
    """Refuse what nobody can choose from."""
    if len(labels) > _MOST:
        raise ConfigurationError(f"A prompt has at most {_MOST} categories, and this one has {len(labels)}.")
    names = [label.name.casefold() for label in labels]
    double = next((label.name for label in labels if names.count(label.name.casefold()) > 1), None)
    if double is not None:
        raise ConfigurationError(f"The category {double!r} is there twice.", next="Leave one out, or rename it.")
    if len(labels) < 2:  # noqa: PLR2004 - one is no question
        raise ConfigurationError(
            f"A prompt with categories has two or more, and this one has {len(labels)}.", next="Add the others."
        )
    for label in labels:
        if not label.name.strip() or len(label.name) > _LONGEST:
            raise ConfigurationError(f"A category has a name of 1 to {_LONGEST} characters, not {label.name[:80]!r}.")


def written(labels: Sequence[Label], *, asked: str = _ASKED) -> str:
    """A prompt that asks for these categories; ``parsed`` reads them back."""
    checked(labels)
    lines = [f"- {label.name}: {_told(label)}" for label in labels]
    return f"{asked}\n\n```categorias\n" + "\n".join(lines) + "\n```\n"


def _told(label: Label) -> str:
    description = " ".join((label.description or label.name).replace(";", ",").split())
    cues = [
        f'"{cue}"' if "," in cue else cue for cue in (" ".join(cue.replace('"', "'").split()) for cue in label.cues)
    ]
    return description + (f"; {', '.join(cues)}" if cues else "")


def from_file(text: str) -> str:
    """A prompt from a file of labels: JSON as ``[{"name": …, "description": …, "cues": […]}]``, or a prompt itself."""
    if not text.lstrip().startswith(("[", "{")):
        if not parsed(text):
            raise ConfigurationError(
                "This file names no categories.", next="Write one per line: '- name: description; word, word'."
            )
        return text if "```" in text else f"{_ASKED}\n\n{text}"
    try:
        read = json.loads(text)
        labels = [_from_json(each) for each in (read["labels"] if isinstance(read, dict) else read)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"This file of labels cannot be read: {error}.",
            next='Write [{"name": "contract", "description": "…", "cues": ["…"]}, …].',
        ) from None
    return written(labels)


def _from_json(each: Any) -> Label:
    name = SUB.join(part.strip() for part in str(each["name"]).replace(":", " ").replace(";", " ").split(">"))
    return Label(
        name=name,
        description=str(each.get("description", "")),
        cues=tuple(map(str, each.get("cues", ()))),
        parent=name.partition(SUB)[0] if SUB in name else None,
    )


def default_content() -> str:
    """The prompt that is there when nobody wrote one: the kinds of the house's own labelled set."""
    return written(house_labels())


def as_json(labels: Sequence[Label]) -> list[dict[str, Any]]:
    """Labels as a configuration keeps them."""
    return [{"name": each.name, "description": each.description, "cues": list(each.cues)} for each in labels]


def from_json(kept: Sequence[dict[str, Any]]) -> tuple[Label, ...]:
    """The same, read back."""
    return tuple(_from_json(each) for each in kept)
