"""Encodes values as JSON text that PostgreSQL can store, and decodes them by their annotation."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import CoreConfig, PydanticSerializationError, SchemaValidator

from retoma.errors import ConfigurationError, Unstorable
from retoma.values.annotations import plain_class
from retoma.values.fingerprints import fingerprint
from retoma.values.text import storable

T = TypeVar("T")

LIMIT_BYTES = 16_000_000
DEEPEST = 100

_CONFIG = ConfigDict(ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64")
# An odd run of backslashes: after an even one, "u0000" is six ordinary characters.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
# JSON without any of these four bytes contains no NUL, NaN, Infinity or U+FFFD: one scan instead of four.
_ORDINARY = bytes(set(range(256)) - set(b"\\NI\xef"))
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_MISMATCH = re.compile(r"Expected `([^`]+)` - [^`\[]*\[(?:field_name='(\w+)', )?")
_GIVEN = re.compile(r"input_type=(\w+)\]")
# Types that cannot nest deeper than their annotation; for all others the depth is measured.
_SHALLOW = re.compile(
    "none|bool|int|float|decimal|str|bytes|uuid|url|literal|enum|default|date|time|datetime|timedelta|nullable|"
    "union|tagged-union|list|tuple|set|frozenset|dict|typed-dict(-field)?|dataclass(-args|-field)?|model(-fields?)?|"
    "computed-field|own-config"
)
_WORDS = 80  # characters of a message that may quote what was saved
_PROSE = frozenset({"title", "description"})
_ANNOTATE = "Annotate the return type with a dataclass, a pydantic model or a type of plain JSON."


class Encoded(NamedTuple):
    """JSON text; *changed* when the stored value differs from the given one."""

    text: str
    changed: bool


class Misfit(Exception):
    """Text that is not the JSON of a *kind*: the *reason*, and the *place* in the value, such as "pages.3". The caller
    knows what the text is, and words the error.
    """

    def __init__(self, kind: str, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.kind = kind
        self.place = place
        self.reason = reason


class Codec(Generic[T]):
    """To JSON text and back, by one annotation."""

    def __init__(self, annotation: Any) -> None:
        self.annotation: object = annotation
        try:
            # Under another name, because pydantic takes no configuration for a bare dataclass.
            adapter = TypeAdapter[Any](cast(Any, typing.NewType("Value", annotation)), config=_CONFIG)
            kinds = set(_kinds(adapter.core_schema))
        except (PydanticUserError, NameError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigurationError(
                f"{_named(annotation)} cannot be kept as JSON: {reason}", next=_ANNOTATE
            ) from error
        self._adapter = adapter
        self._to_json = adapter.serializer.to_json
        self._from_json = adapter.validator.validate_json
        self._deep = not all(_SHALLOW.fullmatch(kind) for kind in kinds)
        self._hides_nan = "own-config" in kinds
        # Where a type says nothing (Any), the value itself must equal its own round trip.
        self._exact = "any" in kinds and not kinds & {"model", "dataclass"}
        has_fields = dataclasses.is_dataclass(annotation) or issubclass(plain_class(annotation), BaseModel)
        self._class = annotation if has_fields else None

    @functools.cached_property
    def _hasty(self) -> SchemaValidator:
        return SchemaValidator(_left_at_first_fault(self._adapter.core_schema), CoreConfig(val_json_bytes="base64"))

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the annotation; an empty one, which takes any JSON value, where it has none."""
        try:
            return cast(dict[str, Any], json.loads(json.dumps(self._adapter.json_schema(), default=str)))
        except (PydanticUserError, PydanticSerializationError):
            return {}

    @functools.cached_property
    def fingerprint(self) -> str:
        """Changes with the structure of the annotation, and not with titles and descriptions."""
        try:
            schema = self._adapter.json_schema()
        except (PydanticUserError, PydanticSerializationError):
            return fingerprint(_named(self.annotation))
        return fingerprint(json.loads(json.dumps(schema, default=str), object_hook=_without_prose))

    def encode(self, value: T, *, what: str, limit: int = LIMIT_BYTES) -> Encoded:
        """JSON that PostgreSQL accepts, or Unstorable; *what* names the value in the message."""
        changed = False
        try:
            raw = self._to_json(value, warnings="error", round_trip=True)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            if "surrogates not allowed" not in str(error):
                raise self._refusal(error, what) from error
            value, raw = self._cleaned(value, what)
            changed = True
        if raw.translate(None, _ORDINARY):
            value, raw, changed = self._washed(value, raw, changed, what)
        if len(raw) > limit:
            size = f"it takes {len(raw):,} bytes and the limit is {limit:,}."
            raise _unstorable(what, size, "Keep the bytes in a file or a blob and return a reference to it.")
        if self._deep and too_deep(raw):
            raise _unstorable(what, f"it nests deeper than {DEEPEST} levels.", "Return it flatter.")
        if self._hides_nan and b"null" in raw:
            self._refuse_not_a_number(value, what)
        if self._class is not None and type(value) is not self._class:
            raise self._not_as_annotated(type(value).__name__, what)
        text = raw.decode()
        if self._exact and not self._comes_back(text, _clean(value) if changed else value):
            reason = f"the {type(value).__name__} comes back from JSON as something else on a second attempt."
            raise _unstorable(what, reason, _ANNOTATE)
        return Encoded(text, changed)

    def decode(self, text: str, *, untrusted: bool = False) -> T:
        """The value of *text*, or Misfit with the first reason. For *untrusted* text the check of a list stops at its
        first fault: a message for each of a million faults would take gigabytes.
        """
        read = self._hasty.validate_json if untrusted else self._from_json
        try:
            return cast(T, read(text, by_alias=True, by_name=True))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place, reason = _short(".".join(str(part) for part in first["loc"])), _short(first["msg"])
        except Exception as error:  # noqa: BLE001 - a constructor may raise anything, and its message may contain the value
            place, reason = "", f"its constructor raised {type(error).__name__}"
        raise Misfit(_named(self.annotation), place, reason)

    def _washed(self, value: T, raw: bytes, changed: bool, what: str) -> tuple[T, bytes, bool]:
        # pydantic silently replaces lone surrogates in the keys of a typed dict.
        if not changed and b"\xef\xbf\xbd" in raw and self._was_bent(value):
            value, raw = self._cleaned(value, what)
            changed = True
        if b"NaN" in raw or b"Infinity" in raw:
            self._refuse_not_a_number(value, what)
        if b"\\u0000" in raw:
            raw, replaced = _NUL.subn(rb"\1" + "\ufffd".encode(), raw)
            if replaced:
                changed = True
                _refuse_merged_keys(raw, what)
        return value, raw, changed

    def _was_bent(self, value: T) -> bool:
        plain = value if self._exact else self._adapter.serializer.to_python(value, round_trip=True)
        try:
            return bool(_clean(plain) != plain)
        except ValueError:
            return True

    def _cleaned(self, value: T, what: str) -> tuple[T, bytes]:
        try:
            if self._exact:
                cleaned = _clean(value)
            else:
                plain = self._adapter.serializer.to_python(value, round_trip=True)
                cleaned = self._adapter.validator.validate_python(_clean(plain), by_alias=True, by_name=True)
            return cleaned, self._to_json(cleaned, warnings="error", round_trip=True)
        except (ValueError, TypeError) as error:
            reason = "it holds half characters (lone surrogates) that cannot be replaced."
            raise _unstorable(what, reason, "Decode the text with errors='replace' first.") from error

    def _comes_back(self, text: str, value: T) -> bool:
        try:
            return bool(self._from_json(text) == value)
        except ValidationError:
            return False

    def _refuse_not_a_number(self, value: T, what: str) -> None:
        plain = self._adapter.serializer.to_python(value, mode="json", round_trip=True)
        for path in _not_numbers(plain, "$"):
            reason = f"{path} is NaN or infinite, for which JSON has no word."
            raise _unstorable(what, reason, "Return None there, or leave it out.")

    def _not_as_annotated(self, given: str, what: str) -> Unstorable:
        expected = _named(self.annotation)
        reason = f"it is a {given}, and a second attempt would get a {expected}, as annotated."
        if what.startswith("the input"):
            return _unstorable(what, reason, "Pass what the annotation says, or annotate what is passed.")
        return _unstorable(what, reason, "Return what the annotation says, or annotate what is returned.")

    def _refusal(self, error: Exception, what: str) -> Unstorable:
        message = str(error)
        if (match := _MISMATCH.search(message)) and (told := _GIVEN.search(message, match.end())):
            (expected, field), given = match.groups(), told[1]
            if field is None:
                return self._not_as_annotated(given, what)
            return _unstorable(what, f"{field} should be {expected} and is a {given}.", _ANNOTATE)
        kind = message.partition("unknown type: ")[2].removeprefix("<class '").removesuffix("'>")
        reasons = (
            ("Circular", "it contains itself.", "Return it without the circle, for example with ids."),
            ("depth", f"it nests deeper than {DEEPEST} levels.", "Return it flatter."),
            ("unknown type", f"a {_short(kind)} cannot be kept as JSON.", _ANNOTATE),
            (
                "utf-8",
                "its bytes are not text.",
                "Annotate them Base64Bytes, or return a reference to a file.",
            ),
            ("", f"a {type(error).__name__} came up while it was written as JSON.", _ANNOTATE),
        )
        return next(_unstorable(what, reason, advice) for sign, reason, advice in reasons if sign in message)


@functools.lru_cache(maxsize=1024)
def _cached(annotation: Any) -> Codec[Any]:
    return Codec(annotation)


def codec_of(annotation: Any) -> Codec[Any]:
    """The codec of *annotation*, made once."""
    try:
        return _cached(annotation)
    except TypeError:  # metadata in Annotated need not be hashable
        return Codec(annotation)


def too_deep(raw: bytes) -> bool:
    """Whether JSON nests deeper than PostgreSQL should be asked to parse."""
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    # Each round removes the innermost pairs, so the number of rounds is the depth; no loop over characters in Python.
    left = _STRING.sub(b"", raw).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(DEEPEST):
        left = left.replace(b"[]", b"")
    return left != b""


def _kinds(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, str):
            yield kind
        config = schema.get("config", {})
        if kind in {"model", "dataclass", "typed-dict"} and config.get("ser_json_inf_nan") != "constants":
            yield "own-config"
        if "allow" in (schema.get("extra_behavior"), config.get("extra_fields_behavior")):
            yield "extra"
        schema = [part for key, part in schema.items() if key not in {"metadata", "default", "config"}]
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from _kinds(part)


def _left_at_first_fault(schema: Any) -> Any:
    if isinstance(schema, dict):
        made = {key: _left_at_first_fault(part) for key, part in schema.items()}
        return {**made, "fail_fast": True} if schema.get("type") in {"list", "tuple", "set", "frozenset"} else made
    return [_left_at_first_fault(part) for part in schema] if isinstance(schema, list) else schema


def _clean(value: Any) -> Any:
    match value:
        case str() if not isinstance(value, Enum):
            return storable(value)
        case dict():
            cleaned = {_clean(key): _clean(each) for key, each in value.items()}
            if len(cleaned) < len(value):
                raise ValueError("two keys became one")
            return cleaned
        case list() | set() | frozenset() | tuple() if type(value) in (list, set, frozenset, tuple):
            return type(value)(_clean(each) for each in value)
    return value


def _refuse_merged_keys(raw: bytes, what: str) -> None:
    def joined(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            reason = "two of its keys differ only in characters that JSON cannot hold."
            raise _unstorable(what, reason, "Clean the keys before returning them.")

    json.loads(raw, object_pairs_hook=joined)


def _not_numbers(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _not_numbers(each, f"{path}.{_short(str(key))}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _not_numbers(each, f"{path}[{index}]")


def _named(annotation: Any) -> str:
    return annotation.__name__ if plain_class(annotation) is annotation else str(annotation)


def _without_prose(schema: dict[str, Any]) -> dict[str, Any]:
    # A property may be called title too, but then its value is a schema, not a text.
    return {key: part for key, part in schema.items() if key not in _PROSE or not isinstance(part, str)}


def _unstorable(what: str, reason: str, advice: str) -> Unstorable:
    return Unstorable(f"Cannot save {what}: {reason}", next=advice)


def _short(text: str) -> str:
    return text if len(text) <= _WORDS else f"{text[: _WORDS - 1]}…"
