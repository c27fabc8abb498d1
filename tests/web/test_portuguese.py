"""Who asks in Portuguese is answered in Portuguese, in every field and with the real values."""

import ast
import re
import string
from pathlib import Path
from typing import Any

import pydantic_core._pydantic_core as core
import pytest

from retoma.pipelines import ALL
from retoma.web import packages
from retoma.web.words.sentences import in_portuguese

from .conftest import House, code
from .test_batches import make

SOURCE = Path(__file__).parents[2] / "src/retoma"
REACHED = (
    "commands/batches.py",
    "commands/batch_actions.py",
    "commands/operations.py",
    "commands/jobs.py",
    "app/calls.py",
    "commands/schedules.py",
    "model/validation.py",
    "commands/prices.py",
    "pipelines/classification/catalogue.py",
    "pipelines/classification/labels.py",
    "pipelines/classification/library.py",
    "pipelines/classification/execution.py",
    "pipelines/documents/library.py",
    "pipelines/documents/search.py",
    "pipelines/embeddings/library.py",
    "pipelines/embeddings/search.py",
    "pipelines/documents/http.py",
    "pipelines/quotes/catalogue.py",
    "pipelines/quotes/conditions.py",
    "pipelines/quotes/keeping.py",
    "pipelines/quotes/library.py",
    "pipelines/quotes/reports.py",
    "pipelines/quotes/http/kept.py",
    "pipelines/quotes/http/quotes.py",
    "web/api/workers.py",
    "web/api/system.py",
    "web/http/auth.py",
    "web/api/batches.py",
    "web/api/jobs.py",
    "web/api/events.py",
)
"""Modules whose errors reach those who call the API."""
TOLD = {"NotFound", "Conflict", "BatchConflict", "ConfigurationError", "KeyTaken"}
JOINED = {"Z: Z.", "The list has no items.Z"}
"""Sentences made of others, each of which is looked at by itself; test_quotes_refused.py has those of lists."""
PORTUGUESE = {"Accept-Language": "pt-BR"}


def texts(node: ast.expr) -> list[str]:
    """What an expression may say; what is filled in stands as one letter."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(part.value if isinstance(part, ast.Constant) else "Z" for part in parts)]
        case ast.IfExp(body=one, orelse=other):
            return texts(one) + texts(other)
        case ast.BinOp(left=left, right=right):
            return [first + second for first in texts(left) for second in texts(right)]
    return []


def said() -> list[str]:
    found = []
    for name in REACHED:
        for node in ast.walk(ast.parse((SOURCE / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TOLD and node.args:
                found += texts(node.args[0])
    return sorted(set(found) - JOINED)


@pytest.fixture(autouse=True)
def served() -> None:
    packages.serve(ALL)


@pytest.mark.parametrize("sentence", said())
def test_what_the_engine_says_is_said_in_portuguese_too(sentence: str) -> None:
    told = in_portuguese(sentence)

    assert told, "write it down in web/words/sentences.toml"
    assert not re.search(r"\b(the|must|there|cannot|and|was)\b", told), told


KINDS = (
    "missing", "extra_forbidden", "model_attributes_type", "model_type", "greater_than", "greater_than_equal",
    "less_than", "less_than_equal", "finite_number", "too_short", "too_long", "string_type", "string_too_short",
    "string_too_long", "string_pattern_mismatch", "enum", "dict_type", "list_type", "bool_type", "bool_parsing",
    "int_type", "int_parsing", "int_parsing_size", "int_from_float", "float_type", "float_parsing", "value_error",
    "literal_error", "date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact",
    "datetime_type", "datetime_parsing", "datetime_from_date_parsing", "timezone_aware", "uuid_parsing",
    "decimal_type", "decimal_parsing", "decimal_max_digits", "decimal_max_places", "decimal_whole_digits",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_with_a_value_is_said_in_portuguese(kind: str) -> None:
    (template,) = [each["message_template_python"] for each in core.list_all_errors() if each["type"] == kind]
    names = [name for _, name, _, _ in string.Formatter().parse(template) if name]

    for plural in ("", "s"):
        sentence = template.format(**dict.fromkeys(names, "Z") | {"expected_plural": plural})
        assert in_portuguese(sentence), sentence


def test_a_sentence_is_matched_in_one_pass() -> None:
    """However long what is filled in is, and however often it looks like what follows."""
    assert in_portuguese("There is no batch " + ". " * 500_000 + "7.") is not None
    assert in_portuguese("Batch " + " is of pipeline " * 100_000) is None


def test_the_values_stay_and_states_have_their_own_words() -> None:
    assert in_portuguese("Job 7 is running and hears no more signals.") == (
        "A tarefa 7 (estado: em andamento) não recebe mais sinais."
    )
    assert in_portuguese("Input should be 'a', 'b' or 'c'") == "Deve ser 'a', 'b' ou 'c'."
    assert in_portuguese("pages: Input should be a valid integer.") == "pages: Deve ser um número inteiro."
    assert in_portuguese("Something that nobody has translated.") is None


def asked(house: House, method: str, path: str, body: Any = None) -> dict[str, Any]:
    answered = house.client.request(method, f"/api/v1{path}", json=body, headers=PORTUGUESE)
    assert answered.status_code >= 400, answered.text
    code(answered)
    return dict(answered.json())


def test_what_was_said_exactly_is_not_dropped(house: House) -> None:
    id = make(house)

    assert asked(house, "GET", "/batches?state=foo")["detail"] == "Não existe o estado 'foo'."
    assert asked(house, "GET", "/batches/404")["detail"] == "Não existe o lote 404."
    jobs = [{"input": 1, "key": "a"}, {"input": 2}]
    made = asked(house, "POST", "/batches", {"pipeline": "double", "name": "x", "jobs": jobs})
    assert made["detail"] == "Dê um código a todas as tarefas, ou a nenhuma."
    unknown = asked(house, "POST", "/jobs", {"pipeline": "nada", "input": 1})
    assert unknown["detail"].startswith("Não existe aqui o pipeline 'nada'; existem ")
    sealed = asked(house, "POST", f"/batches/{id}/jobs", {"jobs": [{"input": 1}]})
    assert sealed["detail"].startswith(f"O lote {id} (January) (estado: ")
    assert sealed["detail"].endswith("Crie outro lote para o que é novo.")


def test_why_a_batch_cannot_be_resumed_is_told_in_portuguese(house: House) -> None:
    id = make(house)

    plan = house.client.get(f"/api/v1/batches/{id}/plan", headers=PORTUGUESE).json()

    assert plan["why_not"] == "ele está em estado: pendente"


def test_every_fault_is_told_in_portuguese(house: House) -> None:
    wrong = {"pipeline": "double", "input": 1, "priority": 9999, "attempts": "3", "foo": 1, "if_taken": "maybe"}

    faults = {each["pointer"]: each["detail"] for each in asked(house, "POST", "/jobs", wrong)["errors"]}

    assert faults == {
        "/priority": "Deve ser menor ou igual a 1000.",
        "/attempts": "Deve ser um número inteiro.",
        "/foo": "Este nome não é conhecido aqui.",
        "/if_taken": "Deve ser 'return' ou 'raise'.",
    }
    (twice,) = asked(house, "GET", "/jobs?limit=1&limit=2")["errors"]
    assert twice["detail"] == "Este nome veio mais de uma vez."
    misfit = asked(house, "POST", "/jobs", {"pipeline": "double", "input": "x"})
    assert misfit["detail"].startswith("Esta não é uma entrada de 'double': Deve ser um número inteiro")
    assert misfit["errors"][0]["detail"].startswith("Deve ser um número inteiro")
