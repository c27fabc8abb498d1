"""A user's own folder: one subfolder for each label, with documents of any kind that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from retoma.bench.evaluation.figures import Figures, majority, wilson
from retoma.bench.evaluation.judging import Remembering, judge, told
from retoma.errors import ConfigurationError
from retoma.pipelines.classification import labels as categories
from retoma.providers import Label
from retoma.providers.local.encoder import best_encoder
from retoma.providers.local.errors import DocumentEmpty, DocumentUnreadable
from retoma.providers.local.extract import LocalExtractor
from retoma.providers.local.kinds import detect

_TIMEOUT = 600.0
_LAYOUT = "Put the documents of each label into a subfolder of its name: DIR/contract/a.pdf, DIR/invoice/b.pdf."


async def mine(folder: Path, *, described: Path | None = None) -> Figures:
    """How often the offline classifier tells the label that the folder of a document has."""
    files = _files(folder)
    labels = _labels(sorted(files), described)
    texts: list[tuple[str, str, str]] = []
    unread: dict[str, str] = {}
    for label, found in files.items():
        for file in found:
            name = str(file.relative_to(folder))
            try:
                texts.append((await _text(file), label, name))
            except DocumentUnreadable as error:
                unread[name] = error.code
    left = {label for _, label, _ in texts}
    if len(left) < 2:  # noqa: PLR2004  # one label is no question
        raise ConfigurationError(
            f"Documents of {len(left)} label{'' if len(left) == 1 else 's'} could be read in {folder}, and two are "
            f"needed; {len(unread)} could not be read{_named(unread)}.",
            next=_LAYOUT,
        )
    known = Remembering(best_encoder())
    judged = await judge([text for text, _, _ in texts], [label for _, label, _ in texts],
                         [name for _, _, name in texts], labels, known)  # fmt: skip
    return {
        "folder": str(folder),
        "texts": len(texts),
        "labels": len(labels),
        "labels_described": described is not None,
        "majority": majority(judged.truth),
        "unreadable": len(unread),
        "unreadable_files": unread,
        **told(judged, known),
        "interval": wilson(sum(judged.right), len(texts)),
        "wrong_files": {
            name: verdict.label
            for (_, _, name), verdict, right in zip(texts, judged.verdicts, judged.right, strict=True)
            if not right
        },
    }


def _named(unread: Mapping[str, str]) -> str:
    return "".join(f" ({name}: {code})" for name, code in list(unread.items())[:3])


async def _text(file: Path) -> str:
    kind = detect(file)
    text = (await LocalExtractor().extract(file, kind=kind, timeout=_TIMEOUT)).text
    if not any(map(str.isalnum, text)):
        raise DocumentEmpty(f"There is no text in {file.name}.", next="Leave it out.")
    return text


def _files(folder: Path) -> dict[str, list[Path]]:
    """The documents of each subfolder, in the order of their names; hidden files are none."""
    found = {
        each.name: sorted(file for file in each.rglob("*") if file.is_file() and not file.name.startswith("."))
        for each in sorted(folder.iterdir())
        if each.is_dir() and not each.name.startswith(".")
    }
    if not any(found.values()):
        raise ConfigurationError(f"{folder} has no document in a subfolder.", next=_LAYOUT)
    filled = {label: files for label, files in found.items() if files}
    if len(filled) < 2:  # noqa: PLR2004  # as above
        raise ConfigurationError(f"{folder} has one label, {next(iter(filled))!r}, and two are needed.", next=_LAYOUT)
    return filled


def _labels(names: Sequence[str], described: Path | None) -> list[Label]:
    if described is None:
        return [Label(name=name) for name in names]
    told = categories.parsed(categories.from_file(described.read_text(encoding="utf-8")))
    if missing := sorted(set(names) - {each.name for each in told}):
        raise ConfigurationError(
            f"{described.name} does not name {missing[0]!r}, which is a subfolder.",
            next="Add a line for it: '- name: description; word, word'.",
        )
    return list(told)
