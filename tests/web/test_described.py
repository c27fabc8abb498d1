"""The description says what everything means: no field, parameter, header or answer is left to be guessed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

import retoma.web
from retoma import Retoma, Run, pipeline
from retoma.pipelines import ALL
from retoma.providers.factory import providers_from
from retoma.web.api.openapi import fields, operations_of
from retoma.web.api.schemas.requests import Asked, Wanted
from retoma.web.api.schemas.responses import Schema
from retoma.web.http.errors import RETRY_AFTER, STATUSES

URL = "postgresql://nobody@127.0.0.1/nothing"


@pipeline("alone")
async def alone(number: int, _run: Run) -> int:
    return number


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything that can be served, at once; nothing of it needs a database."""
    providers = providers_from({"RETOMA_HOME": str(tmp_path_factory.mktemp("home"))})
    return retoma.web.site(Retoma(URL, pipelines=[alone], extensions=ALL, providers=providers)).openapi()


def shapes_of(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in kind.__subclasses__():
        yield each
        yield from shapes_of(each)


def header(schema: dict[str, Any], answer: dict[str, Any], name: str) -> bool:
    place = answer.get("headers", {}).get(name, {}).get("$ref", "")
    return place == f"#/components/headers/{name}" and bool(schema["components"]["headers"][name]["description"])


def test_every_field_says_what_it_means(schema: dict[str, Any]) -> None:
    silent = [
        f"{owner}.{name}"
        for owner, shape in schema["components"]["schemas"].items()
        for name, field in shape.get("properties", {}).items()
        if not field.get("description")
    ]

    assert not silent, "write them down in web/fields.toml"


def test_every_shape_says_what_it_is(schema: dict[str, Any]) -> None:
    assert not [name for name, shape in schema["components"]["schemas"].items() if not shape.get("description")]


def test_every_parameter_says_what_it_means_and_has_an_example(schema: dict[str, Any]) -> None:
    parameters = [
        (operation["operationId"], each)
        for operation in operations_of(schema)
        for each in operation.get("parameters", ())
    ]

    assert len(parameters) > 100
    assert not [(id, each["name"]) for id, each in parameters if not each.get("description")]
    assert not [(id, each["name"]) for id, each in parameters if "example" not in each]


def test_nothing_is_written_down_that_is_not_there(schema: dict[str, Any]) -> None:
    names = {name for shape in schema["components"]["schemas"].values() for name in shape.get("properties", ())}
    names |= {each["name"] for operation in operations_of(schema) for each in operation.get("parameters", ())}

    assert sorted(fields().usual.keys() - names) == []


def test_every_group_of_operations_is_explained(schema: dict[str, Any]) -> None:
    used = {tag for operation in operations_of(schema) for tag in operation["tags"]}

    assert {each["name"] for each in schema["tags"] if len(each["description"]) > 10} == used


def media_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for operation in operations_of(schema):
        for kind, media in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{operation['operationId']} asked {kind}", media
        for status, answer in operation["responses"].items():
            for kind, media in answer.get("content", {}).items():
                yield f"{operation['operationId']} {status} {kind}", media


def test_every_question_and_every_answer_has_a_schema(schema: dict[str, Any]) -> None:
    assert not [name for name, media in media_of(schema) if not media.get("schema")]


def test_every_operation_has_examples_that_fit(schema: dict[str, Any]) -> None:
    without, wrong, seen = [], [], 0
    for name, media in media_of(schema):
        if not name.endswith(" application/json"):
            continue
        if "example" not in media:
            without.append(name)
            continue
        seen += 1
        whole = {**media["schema"], "components": schema["components"]}
        checked = jsonschema.Draft202012Validator(whole).iter_errors(media["example"])
        wrong += [(name, error.json_path, error.message[:100]) for error in checked]

    assert seen > 100
    assert without == []
    assert wrong == []


def test_the_example_of_a_problem_is_one(schema: dict[str, Any]) -> None:
    shape = schema["components"]["schemas"]["Problem"]
    (example,) = shape["examples"]

    jsonschema.validate(example, {**shape, "components": schema["components"]})
    assert STATUSES[example["code"]] is not None


def test_answers_say_which_headers_they_carry(schema: dict[str, Any]) -> None:
    for operation in operations_of(schema):
        id, answers = operation["operationId"], operation["responses"]
        queries = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        names = {each["name"] for each in operation.get("parameters", ())}
        for status, answer in answers.items():
            if status == "204" and "text/event-stream" in answers.get("200", {}).get("content", {}):
                continue
            assert header(schema, answer, "X-Correlation-Id"), (id, status)
            if status in ("201", "202"):
                assert header(schema, answer, "Location"), (id, status)
            if status.startswith("2") and "cursor" in queries:
                assert header(schema, answer, "Link"), (id, status)
            if status in ("200", "201", "202", "204") and "Idempotency-Key" in names:
                assert header(schema, answer, "Idempotency-Replayed"), (id, status)
            if any(each in RETRY_AFTER for each in answer["description"].split(", ")):
                assert header(schema, answer, "Retry-After"), (id, status)
        if "405" in answers:
            assert header(schema, answers["405"], "Allow")
        if "304" in answers:
            assert header(schema, answers["304"], "ETag")
            assert header(schema, answers["200"], "ETag")


def test_whatever_shows_its_tag_is_changed_for_that_tag_alone_when_asked(schema: dict[str, Any]) -> None:
    changes = {
        f"{method.upper()} {path}": operation
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
        if method in ("put", "patch", "delete") and "304" in operations.get("get", {}).get("responses", ())
    }
    deaf = [
        route
        for route, operation in changes.items()
        if "If-Match" not in {each["name"] for each in operation["parameters"]} or "412" not in operation["responses"]
    ]

    assert len(changes) > 6
    assert deaf == []


def test_streams_and_files_say_how_they_may_end(schema: dict[str, Any]) -> None:
    operations = {each["operationId"]: each["responses"] for each in operations_of(schema)}

    assert {"200", "204"} <= operations["listEvents"].keys()
    assert {"200", "204"} <= operations["followExecution"].keys()
    assert {"200", "206", "304", "416"} <= operations["getDocumentFile"].keys()
    assert "304" in operations["getJob"]
    assert operations["listEvents"]["200"]["content"].keys() == {
        "application/json", "text/event-stream", "application/x-ndjson",
    }  # fmt: skip


def test_forms_are_described_as_they_are_read(schema: dict[str, Any]) -> None:
    forms = {
        operation["operationId"]: media["schema"]["properties"]
        for operation in operations_of(schema)
        for kind, media in operation.get("requestBody", {}).get("content", {}).items()
        if kind == "multipart/form-data"
    }

    assert forms["tryDocument"].keys() == {
        "arquivo", "prompt_id", "prompt_texto", "modelo", "modo_processamento", "posicao_chunk", "tamanho_chunk",
    }  # fmt: skip
    assert forms["uploadToProject"].keys() == {"arquivos"}
    assert forms["uploadDocuments"].keys() == {"files"}


def test_what_the_engine_counts_on_its_fingers_is_an_enumeration(schema: dict[str, Any]) -> None:
    shapes = schema["components"]["schemas"]

    assert shapes["Call"]["properties"]["state"]["enum"] == ["open", "answered", "failed", "doubtful"]
    assert shapes["JobState"]["enum"][0] == "queued"
    assert "TRAVADO" in shapes["Summary"]["properties"]["status"]["enum"]
    assert "PULADO" in shapes["ResultShown"]["properties"]["status"]["enum"]


# — names and doors —


def test_a_shape_has_one_name_whatever_is_served(schema: dict[str, Any]) -> None:
    small = retoma.web.site(Retoma(URL, pipelines=[alone])).openapi()["components"]["schemas"]
    large = schema["components"]["schemas"]

    assert not [name for name in large if "__" in name]
    assert small.keys() < large.keys()
    assert all(json.dumps(shape) == json.dumps(large[name]) for name, shape in small.items())


def test_no_two_shapes_share_a_name() -> None:
    shapes = {each for base in (Schema, Asked, Wanted) for each in shapes_of(base) if "retoma" in each.__module__}
    names = [each.__name__ for each in shapes]

    assert sorted(names) == sorted(set(names))


def test_questions_are_closed_and_answers_are_open(schema: dict[str, Any]) -> None:
    asked = {each.__name__ for each in shapes_of(Asked)}

    for name, shape in schema["components"]["schemas"].items():
        if shape["type"] == "object":
            assert shape.get("additionalProperties", "open") == (False if name in asked else "open"), name


def test_the_reference_tells_of_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/http.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)
    assert dict(re.findall(r"^\| `(\w+)` \| (\d{3}) \|", page, re.MULTILINE)) == {
        code: str(status) for code, status in STATUSES.items()
    }
