"""The contract, attacked: each field removed, null, empty, of a wrong type, out of limits, inconsistent; each byte."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from sample_books import INPUT, SESSION, TEXT, body_of, original, ours

from retoma.pipelines.books.compose import sealed
from retoma.pipelines.books.verdicts import Expected, judge

Path = tuple[str, ...]

INCOMPLETE = {
    ("chapter_summary",): "summary_incomplete",
    ("coverage_report",): "coverage_incomplete",
    ("coverage_report", "recall_set"): "recall_set_incomplete",
    ("coverage_report", "audit_result"): "audit_incomplete",
    ("metadata",): "metadata_incomplete",
    (): "checkpoint_incomplete",
}
COMPONENTS = {("chapter_summary",), ("coverage_report",), ("metadata",)}
MAY_BE_EMPTY = {
    ("chapter_summary", "paginas"),
    ("coverage_report", "recall_set", "missing_critical_item_ids"),
    ("coverage_report", "audit_result", "missing_markers"),
    ("coverage_report", "audit_result", "invalid_chunks"),
}


def fields(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every field of the contract but those that are named by chapters."""
    for name, inner in value.items():
        here = (*path, name)
        yield here
        if isinstance(inner, dict) and not name.endswith("_por_capitulo"):
            yield from fields(inner, here)


def at(value: dict[str, Any], path: Path) -> dict[str, Any]:
    for name in path[:-1]:
        value = value[name]
    return value


def with_field(path: Path, new: Any, value: dict[str, Any] | None = None) -> dict[str, Any]:
    changed = copy.deepcopy(value or original())
    at(changed, path)[path[-1]] = new
    return changed


def without(path: Path, value: dict[str, Any] | None = None) -> dict[str, Any]:
    changed = copy.deepcopy(value or original())
    del at(changed, path)[path[-1]]
    return changed


def missing_reason(path: Path) -> str:
    if path in COMPONENTS:
        return "component_missing"
    if path in INCOMPLETE:
        return INCOMPLETE[path]
    return INCOMPLETE[path[:-1]]


FIELDS = list(fields(original()))


def test_the_samples_are_valid() -> None:
    for value in (original(), ours(), original("IV"), ours("Anexo I", done=("1", "2"))):
        verdict = judge(body_of(value))
        assert verdict.faults == ()
        assert verdict.checkpoint is not None
        assert verdict.checkpoint.passed


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_a_field_that_is_removed_is_missed_by_name(path: Path) -> None:
    verdict = judge(body_of(without(path)))

    assert not verdict.valid
    assert verdict.reason == missing_reason(path)
    assert verdict.faults[0].where == ".".join(path)


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_a_field_that_is_null_is_missed_by_name(path: Path) -> None:
    verdict = judge(body_of(with_field(path, None)))

    assert not verdict.valid
    assert verdict.reason == missing_reason(path)


CAN_BE_EMPTY = [path for path in FIELDS if not isinstance(at(original(), path)[path[-1]], bool | int | float)]


@pytest.mark.parametrize("path", CAN_BE_EMPTY, ids=".".join)
def test_a_field_that_is_empty_is_missed_unless_it_may_be_empty(path: Path) -> None:
    now = at(original(), path)[path[-1]]
    verdict = judge(body_of(with_field(path, type(now)())))

    if path in MAY_BE_EMPTY:
        assert verdict.valid
        return
    assert not verdict.valid
    if path[-1].startswith("timestamp"):
        assert verdict.reason in {"wrong_type", missing_reason(path)}
    elif path[-1].endswith("_por_capitulo"):
        assert verdict.reason == "metadata_inconsistent"
    elif path in COMPONENTS or path in INCOMPLETE:
        assert verdict.reason == INCOMPLETE[path], "it is there, and all its fields are missing"
    else:
        assert verdict.reason == missing_reason(path)


BLANK = [path for path in FIELDS if isinstance(at(original(), path)[path[-1]], str) and "time" not in path[-1]]


@pytest.mark.parametrize("path", BLANK, ids=".".join)
def test_a_text_of_blanks_is_empty(path: Path) -> None:
    assert judge(body_of(with_field(path, " \n\t"))).reason == missing_reason(path)


OF_ANOTHER_TYPE = [
    pytest.param(path, wrong, id=f"{'.'.join(path)}-{wrong!r}")
    for path in FIELDS
    for wrong in (17.5, "text", True, ["x", 1, None], {"x": {}}, [[]])
    if not isinstance(wrong, type(at(original(), path)[path[-1]]))
]


@pytest.mark.parametrize(("path", "wrong"), OF_ANOTHER_TYPE)
def test_a_field_of_another_type_is_of_a_wrong_type(path: Path, wrong: object) -> None:
    now = at(original(), path)[path[-1]]
    verdict = judge(body_of(with_field(path, wrong)))

    assert not verdict.valid
    inside = isinstance(now, dict) and isinstance(wrong, dict)
    assert inside or verdict.reason == "wrong_type"


LIMITS: list[tuple[Path, Any]] = [
    (("chapter_summary", "palavras"), 0),
    (("chapter_summary", "palavras"), -1),
    (("chapter_summary", "palavras"), 10**30),
    (("chapter_summary", "palavras_resumo"), 0),
    (("chapter_summary", "palavras_resumo"), 501),
    (("chapter_summary", "palavras_resumo"), 399 - 50),
    (("chapter_summary", "resumo"), "curto demais"),
    (("chapter_summary", "paginas"), [0]),
    (("chapter_summary", "paginas"), [-3]),
    (("chapter_summary", "pontos_chave"), ["x"] * 4),
    (("chapter_summary", "pontos_chave"), ["x"] * 9),
    (("chapter_summary", "citacoes"), ["x"]),
    (("chapter_summary", "citacoes"), ["x"] * 5),
    (("chapter_summary", "exemplos"), ["x"]),
    (("chapter_summary", "exemplos"), ["x"] * 6),
    (("chapter_summary", "titulo"), "com \0 dentro"),
    (("coverage_report", "total_chunks"), 0),
    (("coverage_report", "total_chunks"), 9),
    (("coverage_report", "processed_chunks"), -1),
    (("coverage_report", "processed_chunks"), 11),
    (("coverage_report", "processed_chunks"), 9),
    (("coverage_report", "chunk_coverage_percentage"), 100.5),
    (("coverage_report", "chunk_coverage_percentage"), -0.1),
    (("coverage_report", "chunk_coverage_percentage"), 90.0),
    (("coverage_report", "recall_set", "critical_items_total"), 13),
    (("coverage_report", "recall_set", "critical_items_total"), 2),
    (("coverage_report", "recall_set", "critical_items_covered"), 4),
    (("coverage_report", "recall_set", "supporting_items_total"), -1),
    (("coverage_report", "recall_set", "missing_critical_item_ids"), ["1-a"]),
    (("coverage_report", "audit_result", "regeneration_count"), 6),
    (("coverage_report", "audit_result", "regeneration_count"), -1),
    (("coverage_report", "audit_result", "addendum_count"), 3),
    (("coverage_report", "audit_result", "missing_markers"), ["1-a"]),
    (("coverage_report", "audit_result", "invalid_chunks"), [{"item_id": "1-a", "chunks": [9]}]),
    (("metadata", "chunks_processados_por_capitulo"), {"1": -1}),
    (("timestamp_checkpoint",), "9999-12-31T23:59:59-10:00"),
    (("session_id",), "x" * 201),
]


@pytest.mark.parametrize(("path", "value"), LIMITS, ids=lambda each: ".".join(each) if isinstance(each, tuple) else "")
def test_a_value_outside_of_its_limits_is_named_so(path: Path, value: Any) -> None:
    verdict = judge(body_of(with_field(path, value)))

    assert verdict.reason == "out_of_limits"


INCONSISTENT: list[tuple[Path, Any, str]] = [
    (("chapter_number",), "2", "chapter_differs"),
    (("chapter_summary", "numero"), "2", "chapter_differs"),
    (("coverage_report", "chapter_number"), "2", "chapter_differs"),
    (("session_id",), "another", "session_differs"),
    (("metadata", "session_id"), "another", "session_differs"),
    (("metadata", "capitulos_processados"), ["2", "3"], "chapter_not_processed"),
    (("metadata", "capitulos_processados"), ["1", "1"], "metadata_inconsistent"),
    (("metadata", "total_chunks_por_capitulo"), {"1": 11}, "metadata_inconsistent"),
    (("metadata", "chunks_processados_por_capitulo"), {"2": 10}, "metadata_inconsistent"),
    (("metadata", "timestamp_inicio"), "2026-01-21T10:30:00", "times_out_of_order"),
    (("metadata", "timestamp_inicio"), "2026-01-21T10:30:01", "times_out_of_order"),
    (("metadata", "timestamp_ultimo_checkpoint"), "2026-01-21T09:59:59+00:00", "times_out_of_order"),
    (("timestamp_checkpoint",), "2026-01-21T09:59:59", "times_out_of_order"),
    (("metadata", "timestamp_ultimo_checkpoint"), "ontem", "wrong_type"),
    (("metadata", "timestamp_ultimo_checkpoint"), "1769000000", "wrong_type"),
    (("metadata", "timestamp_ultimo_checkpoint"), "2026-02-30T10:00:00", "wrong_type"),
]


@pytest.mark.parametrize(("path", "value", "reason"), INCONSISTENT, ids=lambda each: str(each)[:40])
def test_parts_that_do_not_agree_are_found(path: Path, value: Any, reason: str) -> None:
    assert judge(body_of(with_field(path, value))).reason == reason


def test_a_component_more_than_the_contract_has_is_a_wrong_structure() -> None:
    assert judge(body_of({**original(), "retomb": {}})).reason == "wrong_structure"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "file_empty"),
        (b" \n\t ", "file_empty"),
        (b"\0" * 4096, "file_empty"),
        (b"hello", "not_json"),
        (b"\xff\xfe\x00", "not_json"),
        (b"{} {}", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"a": 1, "a": 2}', "wrong_structure"),
        (b"[]", "wrong_structure"),
        (b"null", "wrong_structure"),
        (b'"text"', "wrong_structure"),
        (b"{}", "component_missing"),
        (b'{"session_id": NaN}', "not_json"),
        (b'{"session_id": ' + b"9" * 5000 + b"}", "not_json"),
    ],
    ids=lambda each: str(each)[:20],
)
def test_what_is_no_checkpoint_at_all_is_named(body: bytes, reason: str) -> None:
    assert judge(body).reason == reason


@pytest.mark.parametrize("make", [original, ours])
def test_a_file_that_is_cut_off_at_any_byte_is_invalid(make: Any) -> None:
    whole = body_of(make())

    found = {judge(whole[:length]).reason for length in range(1, len(whole))}

    assert found == {"not_json"}


def test_a_bit_that_flips_anywhere_is_found_or_changes_nothing() -> None:
    whole, value = body_of(ours()), ours()
    chosen = random.Random(16)
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chosen.randrange(8)
        verdict = judge(bytes(flipped))
        if verdict.valid:
            assert json.loads(flipped) == value, f"byte {place} changed what is said, and nobody noticed"


def test_a_change_of_any_value_is_found_by_the_checksum() -> None:
    value = ours()
    value["chapter_summary"]["pontos_chave"][0] = "Outro ponto"

    assert judge(body_of(value)).reason == "checksum_differs"


def test_a_configuration_that_is_not_the_one_of_its_hash_is_found() -> None:
    value = ours()
    value["retoma"]["configuration"]["model"] = "two"

    assert judge(sealed(value)).reason == "checksum_differs"


EXPECTED = Expected(session_id=SESSION, chapter_number="1", input_sha256=INPUT, chapters={"1": (TEXT, 5000)})


def test_what_the_run_expects_is_compared() -> None:
    assert judge(body_of(ours()), EXPECTED).valid
    assert judge(body_of(original()), EXPECTED).valid
    for wrong, reason in (
        (Expected(session_id="another"), "session_differs"),
        (Expected(chapter_number="2"), "name_differs"),
        (Expected(input_sha256="c" * 64), "input_differs"),
        (Expected(configuration_hash="c" * 64), "configuration_differs"),
        (Expected(chapters={"2": (TEXT, 5000)}), "chapter_unknown"),
        (Expected(chapters={"1": ("c" * 64, 5000)}), "input_differs"),
    ):
        assert judge(body_of(ours()), wrong).reason == reason


def test_a_checkpoint_without_hashes_must_be_of_a_chapter_as_long() -> None:
    assert judge(body_of(original()), Expected(chapters={"1": (TEXT, 5300)})).valid
    assert judge(body_of(original()), Expected(chapters={"1": (TEXT, 3000)})).reason == "input_differs"


def test_less_than_the_contract_asks_is_valid_only_when_the_checkpoint_says_why() -> None:
    value = ours()
    value["chapter_summary"]["exemplos"] = ["O capítulo não traz exemplos."]
    assert judge(sealed(value)).reason == "out_of_limits"

    value["retoma"]["shortfalls"] = {"exemplos": "O capítulo não traz exemplos."}
    assert judge(sealed(value)).valid

    value["chapter_summary"]["citacoes"] = ["Uma só."]
    assert judge(sealed(value)).reason == "out_of_limits"


def test_a_chapter_too_short_for_a_summary_is_given_whole() -> None:
    value = original()
    value["chapter_summary"] |= {
        "palavras": 40,
        "palavras_resumo": 40,
        "resumo": "palavra " * 40,
        "pontos_chave": ["x"],
        "citacoes": ["x"],
        "exemplos": ["Nenhum."],
    }

    assert judge(body_of(value)).valid
    value["chapter_summary"]["exemplos"] = []
    assert judge(body_of(value)).reason == "summary_incomplete"


def test_pages_may_be_an_empty_list_and_markers_in_the_text_do_not_count() -> None:
    value = original()
    value["chapter_summary"]["paginas"] = []
    value["chapter_summary"]["resumo"] += " [RS:1-abc123|chunks:1,2]" * 30

    assert judge(body_of(value)).valid


def test_a_chapter_that_failed_its_audit_is_a_valid_checkpoint_that_says_fail() -> None:
    value = original()
    value["coverage_report"]["audit_result"]["passed"] = False
    value["coverage_report"]["audit_result"]["missing_markers"] = ["1-a"]

    verdict = judge(body_of(value))

    assert verdict.checkpoint is not None
    assert not verdict.checkpoint.passed
