"""What people teach over HTTP: who may, and what each row becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from retoma.pipelines import CLASSIFICATION
from retoma.providers import Classifier
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical

from .archive import providers
from .conftest import PIPELINES, House, Open
from .test_audit_routes import DESK, ENVIRONMENT_KEY, NOTE, Stage


@pytest.fixture
def house(open_house: Open, tmp_path: Path) -> House:
    given = {**providers(tmp_path / "blobs"), Classifier: LocalClassifier(Lexical())}
    opened = open_house(pipelines=PIPELINES, extensions=[CLASSIFICATION], providers=given, api_key=ENVIRONMENT_KEY)
    opened.client.headers["Authorization"] = f"Bearer {ENVIRONMENT_KEY}"
    return opened


@pytest.fixture
def stage(house: House) -> Stage:
    return Stage(house)


def test_teaching_needs_the_scope_review_and_looking_needs_read(house: House, stage: Stage) -> None:
    id, reader = stage.project(), house.key("read", "content:read")
    run = stage.execution("cancelar")
    row = {"exemplos": [{"documento": NOTE[0], "categoria": "ata"}]}

    looked = house.client.get(f"{DESK}/projetos/{id}/exemplos", headers=reader)
    taught = house.client.post(f"{DESK}/projetos/{id}/exemplos", json=row, headers=reader)
    refined = house.client.post(f"{DESK}/execucoes/{run}/refinar", headers=reader)
    forgot = house.client.delete(f"{DESK}/exemplos/1", headers=reader)
    page = house.client.post(f"/classificador/execucoes/{run}/refinar", headers=reader)

    assert (looked.status_code, looked.json()) == (200, [])
    assert [each.status_code for each in (taught, refined, forgot, page)] == [403] * 4


def test_a_file_is_read_row_by_row_and_taken_back_by_its_example(house: House, stage: Stage) -> None:
    id, reviewer = stage.project(), house.key("read", "review")
    sent = {"arquivo": ("l.csv", f"Arquivo;Categoria\n{NOTE[0]};ATA\nnada.txt;ata\n".encode("cp1252"))}

    done = house.client.post(f"{DESK}/projetos/{id}/exemplos/arquivo", files=sent, headers=reviewer)
    empty = house.client.post(
        f"{DESK}/projetos/{id}/exemplos/arquivo", files={"arquivo": ("l.csv", b"a;b\n1;2\n")}, headers=reviewer
    )
    [example] = house.client.get(f"{DESK}/projetos/{id}/exemplos", headers=reviewer).json()
    gone = house.client.delete(f"{DESK}/exemplos/{example['id']}", headers=reviewer)

    assert done.status_code == 200, done.text
    assert (done.json()["ensinados"], done.json()["problemas"][0]["linha"]) == (1, 3)
    assert done.json()["problemas"][0]["codigo"] == "document_unknown"
    assert empty.status_code == 422
    assert (example["categoria"], gone.status_code) == ("ata", 200)
    assert house.client.get(f"{DESK}/projetos/{id}/exemplos", headers=reviewer).json() == []
