"""What is saved comes back the same, and what cannot be saved is refused before it is paid twice."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field
from typing_extensions import TypedDict

from retoma.errors import ConfigurationError, Unstorable
from retoma.values.annotations import return_annotation
from retoma.values.codec import (
    Misfit,
    codec_of,
    too_deep,
)
from retoma.values.fingerprints import checksum, fingerprint, input_hash

if TYPE_CHECKING:
    from collections import OrderedDict

WHAT = "step 'label' of job 7"


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Label:
    kind: Literal["petition", "ruling", "other"]
    confidence: float


@dataclass(frozen=True)
class FineLabel(Label):
    why: str = ""


@dataclass
class Scan:
    text: str
    raw: bytes = b""
    notes: dict[str, str] = field(default_factory=dict)


class Page(TypedDict):
    number: int


class Price(BaseModel):
    model_config = ConfigDict(extra="forbid")

    value: float | None = Field(default=None, alias="valor")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> float:
        return 2 * (self.value or 0)


class Tree(BaseModel):
    children: list[Tree] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from('\0\\u0\ud800\udc00"'))


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, None),
        (Any, {"a": [1, 2.5, None, True, "x"]}),
        (Label, Label("ruling", 0.9)),
        (list[Label], [Label("ruling", 0.9)]),
        (Scan, Scan("t", b"\xff\x00", {"a": "b"})),
        (Price, Price(valor=2.5)),
        (Page, {"number": 3}),
        (Literal["a", "b"], "b"),
        (dict[str, tuple[int, ...]], {"a": (1, 2)}),
        (Label | None, None),
        (datetime, datetime(2026, 11, 15, tzinfo=UTC)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (Path, Path("folder/x")),
        (Colour, Colour.RED),
        (bytes, b"\xff\x00"),
        (set[int], {1, 2}),
        (int, 2**200),
        (Annotated[int, {"not": "hashable"}], 4),
    ],
)
def test_a_value_comes_back_as_its_annotation_says(annotation: Any, value: Any) -> None:
    codec = codec_of(annotation)
    encoded = codec.encode(value, what=WHAT)

    assert codec.decode(encoded.text) == value
    assert type(codec.decode(encoded.text)) is type(value)
    assert not encoded.changed
    json.loads(encoded.text)


@given(PLAIN)
def test_plain_json_comes_back_unchanged_without_an_annotation(value: Any) -> None:
    codec = codec_of(Any)
    encoded = codec.encode(value, what=WHAT)

    assert json.loads(encoded.text) == codec.decode(encoded.text)
    if not encoded.changed:
        assert codec.decode(encoded.text) == value


@pytest.mark.parametrize("annotation", [str, Any])
@given(text=ANY_TEXT)
def test_any_text_can_be_stored_and_is_stable_once_cleaned(annotation: Any, text: str) -> None:
    codec = codec_of(annotation)
    encoded = codec.encode(text, what=WHAT)
    stored = codec.decode(encoded.text)

    assert json.loads(encoded.text) == stored
    assert "\0" not in stored
    stored.encode("utf-8")
    assert encoded.changed == (stored != text)
    assert codec.encode(stored, what=WHAT) == (encoded.text, False)


@given(text=ANY_TEXT, key=ANY_TEXT)
def test_text_inside_a_dataclass_and_its_keys_is_cleaned_as_well(text: str, key: str) -> None:
    scan = Scan(text, b"\0", {key: "n"})
    encoded = codec_of(Scan).encode(scan, what=WHAT)
    stored = codec_of(Scan).decode(encoded.text)

    json.loads(encoded.text)
    stored.text.encode()
    assert "\0" not in stored.text + "".join(stored.notes)
    assert stored.raw == b"\0"
    assert encoded.changed == (stored != scan)


def test_bad_characters_become_the_replacement_character() -> None:
    codec = codec_of(dict[str, str])

    assert codec.encode({"a\ud800": "b"}, what=WHAT) == ('{"a\ufffd":"b"}', True)
    assert codec.encode({"a\ufffd": "b"}, what=WHAT) == ('{"a\ufffd":"b"}', False)
    assert codec.decode(codec.encode({"a\0": "b\0c"}, what=WHAT).text) == {"a\ufffd": "b\ufffdc"}
    assert codec.decode(codec.encode({"a\ud800": "b\udc00c"}, what=WHAT).text) == {"a\ufffd": "b\ufffdc"}
    assert codec.decode(codec.encode({"a": "\ud83d\ude00"}, what=WHAT).text) == {"a": "\U0001f600"}


def test_the_six_letters_of_an_escape_are_somebodys_text() -> None:
    for text in (r"\u0000", r"\\u0000", "\\" * 5 + "u0000"):
        encoded = codec_of(str).encode(text, what=WHAT)

        assert not encoded.changed
        assert codec_of(str).decode(encoded.text) == text


@pytest.mark.parametrize("annotation", [Any, dict[str, int], dict])
@pytest.mark.parametrize("keys", [("a\0", "a\ufffd"), ("a\ud800", "a\ufffd")])
def test_keys_that_would_become_one_are_refused(annotation: Any, keys: tuple[str, str]) -> None:
    with pytest.raises(Unstorable):
        codec_of(annotation).encode(dict.fromkeys(keys, 1), what=WHAT)


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (float, float("nan"), "$ "),
        (Label, Label("ruling", float("inf")), "$.confidence"),
        (Price, Price(valor=float("nan")), "$.value"),
        (list[Price], [Price(), Price(valor=float("-inf"))], "$[1].value"),
        (Any, {"a": [1.0, float("nan")]}, "$.a[1]"),
        (dict[str, list[float]], {"a": [float("nan")]}, "$.a[0]"),
    ],
)
def test_what_is_not_a_number_is_refused_by_its_path(annotation: Any, value: Any, path: str) -> None:
    with pytest.raises(Unstorable) as caught:
        codec_of(annotation).encode(value, what=WHAT)

    assert path in str(caught.value)
    assert WHAT in str(caught.value)


def test_text_that_only_speaks_of_nan_is_kept() -> None:
    assert not codec_of(Any).encode({"NaN": "Infinity and NaN", "n": None}, what=WHAT).changed
    assert codec_of(Price).encode(Price(), what=WHAT).text == '{"value":null}'


def test_a_hundred_levels_are_kept_and_one_more_is_refused() -> None:
    codec_of(Any).encode(nested(100), what=WHAT)
    for levels in (101, 250, 5_000):
        with pytest.raises(Unstorable, match="deeper than 100"):
            codec_of(Any).encode(nested(levels), what=WHAT)


def test_depth_is_measured_in_recursive_and_open_models_too() -> None:
    tree = Tree()
    for _ in range(60):
        tree = Tree(children=[tree])
    with pytest.raises(Unstorable, match="deeper"):
        codec_of(Tree).encode(tree, what=WHAT)
    with pytest.raises(Unstorable, match="deeper"):
        codec_of(Open).encode(Open(extra=nested(120)), what=WHAT)


def test_width_is_not_depth_and_brackets_in_text_are_text() -> None:
    codec_of(Any).encode([[{}] for _ in range(500)], what=WHAT)
    codec_of(Any).encode(["[" * 500 + '"\\{', "\\"], what=WHAT)


@given(PLAIN)
def test_depth_agrees_with_a_walk(value: Any) -> None:
    def depth(each: Any) -> int:
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else None
        return 0 if inside is None else 1 + max(map(depth, inside), default=0)

    wrapped = nested(97)
    wrapped_text = json.dumps(wrapped).replace("1", json.dumps(value))

    assert too_deep(wrapped_text.encode()) == (97 + depth(value) > 100)


def test_too_large_says_the_size_the_limit_and_what_to_do() -> None:
    with pytest.raises(Unstorable, match=r"1,002 bytes and the limit is 500.*reference"):
        codec_of(str).encode("x" * 1000, what=WHAT, limit=500)


@pytest.mark.parametrize("value", [len, lambda: 1, object(), {object()}, {"a": sys}])
def test_what_is_not_a_value_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(Unstorable, match="cannot be kept as JSON"):
        codec_of(Any).encode(value, what=WHAT)


def test_a_socket_is_refused() -> None:
    with socket.socket() as connection, pytest.raises(Unstorable, match="socket"):
        codec_of(Any).encode(connection, what=WHAT)


def test_a_circle_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for annotation in (Any, list):
        with pytest.raises(Unstorable, match="contains itself"):
            codec_of(annotation).encode(circle, what=WHAT)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Label, {"kind": "ruling", "confidence": 0.5}),
        (list[Label], [{"kind": "ruling", "confidence": 0.5}]),
        (Label, FineLabel("ruling", 0.5, "because")),
        (Label, Label("ruling", "high")),  # type: ignore[arg-type]
        (str, 3),
        (None, 3),
    ],
)
def test_a_value_that_is_not_as_annotated_is_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(Unstorable, match=r"[Aa]nnotat"):
        codec_of(annotation).encode(value, what=WHAT)


@pytest.mark.parametrize(("what", "next"), [("the input of a 'note' job", "Pass what"), (WHAT, "Return what")])
def test_who_gave_the_value_is_told_what_to_give(what: str, next: str) -> None:
    with pytest.raises(Unstorable) as caught:
        codec_of(Label).encode({"kind": "ruling", "confidence": 0.5}, what=what)

    assert caught.value.next.startswith(f"{next} the annotation says")


@pytest.mark.parametrize("annotation", [Any, object, dict, dict[str, Any]])
@pytest.mark.parametrize("inside", [(1, 2), {1}, Label("ruling", 1), Decimal(1), {1: 2}, b"x", datetime.now(UTC)])
def test_where_the_type_says_nothing_the_value_must_survive_json(annotation: Any, inside: Any) -> None:
    with pytest.raises(Unstorable, match="Annotate the return type"):
        codec_of(annotation).encode({"a": inside}, what=WHAT)


def test_a_number_too_long_to_read_back_is_refused_without_an_annotation() -> None:
    with pytest.raises(Unstorable):
        codec_of(Any).encode(10**5000, what=WHAT)


def test_a_complaint_does_not_repeat_the_value() -> None:
    with pytest.raises(Unstorable) as caught:
        codec_of(int).encode("secret", what=WHAT)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"kind":"ruling"}', "confidence: Field required"),
        ('{"kind":"secret","confidence":1}', "kind: Input should be"),
        ('{"kind":"ruling","conf', "Invalid JSON"),
        ("", "Invalid JSON"),
    ],
)
def test_what_does_not_fit_any_more_says_where(text: str, reason: str) -> None:
    with pytest.raises(Misfit, match=reason) as caught:
        codec_of(Label).decode(text)

    assert caught.value.kind == "Label"
    assert str(caught.value) == ": ".join(filter(None, (caught.value.place, caught.value.reason)))
    assert "secret" not in str(caught.value)


def test_a_constructor_that_raises_makes_a_misfit() -> None:
    @dataclass
    class Picky:
        name: str

        def __post_init__(self) -> None:
            raise KeyError(self.name)

    with pytest.raises(Misfit, match="KeyError") as caught:
        codec_of(Picky).decode('{"name":"secret"}')
    assert "secret" not in str(caught.value)


def test_a_type_that_json_cannot_hold_is_a_mistake_of_configuration() -> None:
    with pytest.raises(ConfigurationError, match="socket"):
        codec_of(socket.socket)


def test_a_codec_is_made_once() -> None:
    assert codec_of(list[Label]) is codec_of(list[Label])


def test_the_fingerprint_follows_the_shape_and_not_the_wording() -> None:
    def make(doc: str, kind: Any) -> Any:
        return dataclass(type("Made", (), {"__doc__": doc, "__annotations__": {"title": kind}}))

    shape = codec_of(make("One.", int)).fingerprint

    assert codec_of(make("Two.", int)).fingerprint == shape
    assert codec_of(make("One.", str)).fingerprint != shape


def test_a_checksum_is_of_the_exact_text() -> None:
    assert checksum("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert checksum("a ") != checksum("a")


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint("a", "b") != fingerprint("ab")
    assert fingerprint("\ud800")
    with pytest.raises(Unstorable):
        fingerprint(len)


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    code = "from retoma.values.fingerprints import fingerprint; print(fingerprint({'x', 'y', 'z'}, b'raw', 1.5))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert seen == {fingerprint({"x", "y", "z"}, b"raw", 1.5) + "\n"}


def test_an_input_hash_follows_the_values() -> None:
    assert input_hash((), {}) == input_hash((), {})
    assert input_hash((Label("ruling", 1),), {}) == input_hash((Label("ruling", 1),), {})
    assert input_hash((Price(valor=1),), {}) != input_hash((Price(valor=2),), {})
    assert input_hash((1,), {}) != input_hash((), {"a": 1})
    assert input_hash((Colour.RED, Path("x"), UUID(int=1), Decimal(1), datetime.now(UTC), float("nan")), {})


def test_an_input_hash_never_raises_and_never_consumes() -> None:
    class Nasty:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    numbers = iter([1, 2])
    circle: list[Any] = []
    circle.append(circle)

    for odd in (len, Nasty(), numbers, circle, nested(100_000), {(1, 2): 3}, {1: 1, "a": 2}, Label):
        assert input_hash((odd,), {}) is None
    assert list(numbers) == [1, 2]


class Reader:
    def read(self) -> Label:
        raise NotImplementedError

    async def fetch(self) -> list[Label]:
        raise NotImplementedError

    def __call__(self) -> Page:
        raise NotImplementedError


def later() -> Awaitable[Label]:
    raise NotImplementedError


def unresolvable() -> OrderedDict[str, int]:
    raise NotImplementedError


def hidden_parameter(_x: OrderedDict[str, int]) -> None:
    raise NotImplementedError


def never() -> NoReturn:
    raise NotImplementedError


@functools.wraps(later)
def wrapping() -> Any:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "annotation"),
    [
        (Reader().read, Label),
        (Reader.read, Label),
        (Reader().fetch, list[Label]),
        (Reader(), Page),
        (functools.partial(functools.partial(Reader.read), Reader()), Label),
        (later, Label),
        (wrapping, Label),
        (hidden_parameter, type(None)),
        (never, Any),
        (len, Any),
        ("a b".split, Any),
        (lambda: 1, Any),
        (Label, Label),
        (asyncio.sleep, Any),
    ],
)
def test_the_return_annotation_is_found(function: Any, annotation: Any) -> None:
    assert return_annotation(function) == annotation


def test_a_function_inside_a_function_may_name_the_outer_ones_type() -> None:
    @dataclass
    class Summary:
        text: str

    def summarize() -> list[Summary]:
        return [Summary("")]

    assert return_annotation(summarize) == list[Summary]


def test_an_annotation_that_cannot_be_resolved_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"unresolvable.*OrderedDict.*TYPE_CHECKING"):
        return_annotation(unresolvable)
