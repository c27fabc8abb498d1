"""Whether a checkpoint is valid: yes or no, and if not, what is wrong with it, by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from pydantic import ValidationError

from retoma.pipelines.books.contract import Checkpoint

Reason = Literal[
    "file_missing",
    "no_permission",
    "unreadable",
    "file_empty",
    "not_json",
    "wrong_structure",
    "component_missing",
    "summary_incomplete",
    "coverage_incomplete",
    "recall_set_incomplete",
    "audit_incomplete",
    "metadata_incomplete",
    "checkpoint_incomplete",
    "wrong_type",
    "out_of_limits",
    "chapter_differs",
    "chapter_not_processed",
    "metadata_inconsistent",
    "session_differs",
    "times_out_of_order",
    "checksum_differs",
    "name_differs",
    "input_differs",
    "configuration_differs",
    "chapter_unknown",
]
"""Every way of being invalid."""

LARGEST = 32_000_000
"""Bytes of a checkpoint."""

COMPONENTS = ("chapter_summary", "coverage_report", "metadata")
_ABSENT = {"missing", "empty", "string_too_short", "too_short"}
_OURS = {
    "chapter_differs",
    "chapter_not_processed",
    "metadata_inconsistent",
    "session_differs",
    "times_out_of_order",
    "out_of_limits",
    "wrong_type",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where in the checkpoint."""

    reason: Reason
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.where}: {self.message}" if self.where else f"{self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one checkpoint; valid when nothing is wrong. *checkpoint* is there exactly then."""

    checkpoint: Checkpoint | None
    faults: tuple[Fault, ...] = ()

    @property
    def valid(self) -> bool:
        return self.checkpoint is not None

    @property
    def reason(self) -> Reason | None:
        """The first of what is wrong."""
        return self.faults[0].reason if self.faults else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the run knows that asks for the checkpoint. What is None is not compared."""

    session_id: str | None = None
    chapter_number: str | None = None
    input_sha256: str | None = None
    configuration_hash: str | None = None
    chapters: Mapping[str, tuple[str, int]] | None = None
    """For each chapter of the plan the hash of its text and its words."""


ANY = Expected()
_WORDS_APART = 0.15
"""A checkpoint without hashes belongs to a chapter when their counts of words differ by no more than this share."""


def invalid(reason: Reason, message: str, where: str = "") -> Verdict:
    """A verdict with one fault."""
    return Verdict(None, (Fault(reason, where, message),))


def judge(body: bytes, expected: Expected = ANY) -> Verdict:
    """Whether *body* is a checkpoint that may be used. It is the only way from bytes to a Checkpoint."""
    text, value = _read(body)
    if isinstance(value, Verdict):
        return value
    missing = [Fault("component_missing", name, "it is not there") for name in COMPONENTS if value.get(name) is None]
    if missing:
        return Verdict(None, tuple(missing))
    try:
        checkpoint = Checkpoint.model_validate_json(text)
    except ValidationError as error:
        return Verdict(None, tuple(_fault(each) for each in error.errors(include_url=False)))
    except ValueError as error:  # what pydantic's own parser refuses and Python's does not
        return invalid("not_json", str(error))
    if faults := tuple(_compared(checkpoint, value, expected)):
        return Verdict(None, faults)
    return Verdict(checkpoint)


def checksum_of(value: Mapping[str, Any]) -> str:
    """The checksum of a checkpoint's JSON value: of all of it but the checksum."""
    ours = {name: said for name, said in value.get("retoma", {}).items() if name != "checksum"}
    return _hash({**value, "retoma": ours})


def hash_of(value: object) -> str:
    """The name of a JSON value, however its keys are ordered."""
    return _hash(value)


def _hash(value: object) -> str:
    told = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(told.encode("ascii")).hexdigest()


# — reading —


def _read(body: bytes) -> tuple[str, dict[str, Any] | Verdict]:
    """The text of *body* and the object that it is; or why it is none."""
    if not body.strip(b" \t\r\n\0"):
        return "", invalid("file_empty", "there is nothing in it")
    if len(body) > LARGEST:
        return "", invalid("out_of_limits", f"it has {len(body):,} bytes, and {LARGEST:,} are allowed")
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except _Twice as error:
        return "", invalid("wrong_structure", f"{error} stands in it twice")
    except (ValueError, RecursionError) as error:  # what is cut off, and what is no UTF-8, too
        return "", invalid("not_json", str(error) or "it is nested too deeply")
    if not isinstance(value, dict):
        return "", invalid("wrong_structure", f"it is a {type(value).__name__}, not an object")
    return text, value


class _Twice(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(repr(name) for name in names if names.count(name) > 1))
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _fault(error: Any) -> Fault:
    place = tuple(str(part) for part in error["loc"])
    where, kind = ".".join(place), str(error["type"])
    if kind in _ABSENT or error.get("input") is None:
        return Fault(_incomplete(place), where, "it is not there" if kind == "missing" else "it is empty")
    if kind in _OURS:
        return Fault(kind, where, error["msg"])  # type: ignore[arg-type]  # one of ours
    if kind == "json_invalid":
        return Fault("not_json", "", error["msg"])
    if kind == "extra_forbidden":
        return Fault("wrong_structure", where, "the contract knows no such part")
    if kind.endswith(("_type", "_parsing")):
        return Fault("wrong_type", where, error["msg"])
    return Fault("out_of_limits", where, error["msg"])


def _incomplete(place: tuple[str, ...]) -> Reason:
    match place:
        case ("chapter_summary", *_):
            return "summary_incomplete"
        case ("coverage_report", "recall_set", *_):
            return "recall_set_incomplete"
        case ("coverage_report", "audit_result", *_):
            return "audit_incomplete"
        case ("coverage_report", *_):
            return "coverage_incomplete"
        case ("metadata", *_):
            return "metadata_incomplete"
    return "checkpoint_incomplete"


# — comparing —


def _compared(checkpoint: Checkpoint, value: dict[str, Any], expected: Expected) -> list[Fault]:
    faults = []
    ours = checkpoint.retoma
    if ours is not None and ours.checksum != checksum_of(value):
        faults.append(Fault("checksum_differs", "retoma.checksum", "its content is not the one that was saved"))
    if ours is not None and ours.configuration_hash != hash_of(ours.configuration):
        faults.append(Fault("checksum_differs", "retoma.configuration_hash", "it is not that of its configuration"))
    if expected.session_id not in (None, checkpoint.session_id):
        faults.append(Fault("session_differs", "session_id", f"it belongs to session {checkpoint.session_id[:80]!r}"))
    if expected.chapter_number not in (None, checkpoint.chapter_number):
        faults.append(Fault("name_differs", "chapter_number", f"it is of chapter {checkpoint.chapter_number[:80]!r}"))
    if expected.chapters is not None:
        faults += _planned(checkpoint, expected.chapters)
    if ours is None:
        return faults
    if expected.input_sha256 not in (None, ours.input_sha256):
        faults.append(Fault("input_differs", "retoma.input_sha256", "it was made from another input"))
    if expected.configuration_hash not in (None, ours.configuration_hash):
        faults.append(Fault("configuration_differs", "retoma.configuration_hash", "it was made in another way"))
    return faults


def _planned(checkpoint: Checkpoint, chapters: Mapping[str, tuple[str, int]]) -> list[Fault]:
    known = chapters.get(checkpoint.chapter_number)
    if known is None:
        return [Fault("chapter_unknown", "chapter_number", "the book has no such chapter")]
    sha256, words = known
    if checkpoint.retoma is not None:
        if checkpoint.retoma.chapter_sha256 != sha256:
            return [Fault("input_differs", "retoma.chapter_sha256", "it was made from another text")]
    elif abs(checkpoint.chapter_summary.palavras - words) > max(10, _WORDS_APART * words):
        said = f"the chapter has {words:,} words, and it was made from {checkpoint.chapter_summary.palavras:,}"
        return [Fault("input_differs", "chapter_summary.palavras", said)]
    return []
