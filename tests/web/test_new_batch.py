"""A new batch from the console: a form made from the type of the input, many inputs at once, and its pilot."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx2
import pytest

from retoma import Run, pipeline
from retoma.testing import drain
from retoma.web.console.input_fields import fields_of_schema

from .conftest import House, Open, double

PAGE = {"Accept": "text/html", "Accept-Language": "en"}


class Tone(StrEnum):
    CALM = "calm"
    LOUD = "loud"


@dataclass(frozen=True)
class Letter:
    subject: str
    pages: int
    tone: Tone = Tone.CALM
    weight: float | None = None
    urgent: bool = False
    tags: list[str] | None = None
    scan: bytes | None = None
    more: dict[str, int] | None = None


@pipeline("letters")
async def letters(letter: Letter, _run: Run) -> str:
    """Reads a letter."""
    return letter.subject


@pytest.fixture
def desk(open_house: Open) -> House:
    return open_house(pipelines=(letters, double))


def send(house: House, files: dict[str, tuple[str, bytes]] | None = None, **fields: str) -> httpx2.Response:
    parts: dict[str, Any] = {name: (None, value) for name, value in fields.items()}
    return house.client.post("/console/new", files=parts | (files or {}), headers=PAGE)


def made(house: House) -> list[Any]:
    batches = house.ask(lambda app: app.batches.find())
    return [house.ask(lambda app, own=each.id: app.jobs.find(batch_id=own)) for each in batches]


def test_the_fields_of_a_form_follow_from_the_type_of_the_input() -> None:
    found = {each.name: (each.kind, each.required) for each in fields_of_schema(letters.input.schema)}

    assert found == {
        "subject": ("text", True),
        "pages": ("integer", True),
        "tone": ("choice", False),
        "weight": ("number", False),
        "urgent": ("boolean", False),
        "tags": ("list", False),
        "scan": ("file", False),
        "more": ("json", False),
    }


def test_the_pipelines_are_shown_and_each_has_its_form(desk: House) -> None:
    listed = desk.client.get("/console/new", headers=PAGE)
    form = desk.client.get("/console/new?pipeline=letters", headers=PAGE)

    assert "Reads a letter." in listed.text
    assert 'href="/console/new?pipeline=double"' in listed.text
    for name in ("subject", "pages", "tone", "weight", "urgent", "tags", "scan", "more"):
        assert f'name="input.{name}"' in form.text
    assert "<option" in form.text
    assert "Test with 20" in form.text


def test_one_input_is_made_of_the_fields_and_a_file(desk: House) -> None:
    fields = {"input.subject": "Dear Ana", "input.pages": "3", "input.tone": "loud", "input.urgent": "yes"}
    fields |= {
        "input.tags": "a\r\nb\r\n",
        "input.weight": "2,5",
        "input.more": '{"x": 1}',
        "name": "one",
        "do": "start",
    }
    answer = send(desk, {"input.scan": ("scan.png", b"\x89PNG")}, pipeline="letters", **fields)

    ((job,),) = made(desk)
    letter = letters.input.decode(job.input)
    assert answer.status_code == 303, answer.text
    assert letter == Letter("Dear Ana", 3, Tone.LOUD, 2.5, True, ["a", "b"], b"\x89PNG", {"x": 1})
    assert base64.b64encode(b"\x89PNG").decode() in job.input


def test_what_is_wrong_is_told_beside_its_field_and_what_was_written_stays(desk: House) -> None:
    answer = send(
        desk, pipeline="letters", name="", do="start", **{"input.subject": "Dear Ana", "input.pages": "three"}
    )

    assert answer.status_code == 422
    assert 'value="Dear Ana"' in answer.text
    assert 'value="three"' in answer.text
    assert 'id="wrong-input.pages"' in answer.text
    assert 'id="wrong-name"' in answer.text
    assert made(desk) == []


@pytest.mark.parametrize(
    "rows",
    [
        '[{"subject": "a", "pages": 1}, {"subject": "b", "pages": 2}]',
        '{"subject": "a", "pages": 1}\n\n{"subject": "b", "pages": 2}\n',
        "subject,pages,weight\na,1,\nb,2,0.5\n",
    ],
    ids=["json", "lines", "csv"],
)
def test_many_inputs_come_as_json_lines_or_csv(desk: House, rows: str) -> None:
    answer = send(desk, {"rows_file": ("rows.txt", rows.encode())}, pipeline="letters", name="many", do="start")

    ((second, first),) = made(desk)
    assert answer.status_code == 303, answer.text
    assert [letters.input.decode(each.input).subject for each in (first, second)] == ["a", "b"]


def test_every_bad_row_is_told_and_none_is_lost(desk: House) -> None:
    rows = '{"subject": "a", "pages": 1}\n{"subject": "b"}\nnot json\n{"subject": "c", "pages": "many"}\n'
    answer = send(desk, {"rows_file": ("rows.jsonl", rows.encode())}, pipeline="letters", name="many", do="start")

    assert answer.status_code == 422
    assert "3 rows do not fit; 1 do" in answer.text
    for number in (2, 3, 4):
        assert f'<td data-label="Row">{number}</td>' in answer.text
    assert "not json" in answer.text
    assert "&#34;c&#34;" in answer.text  # the whole text is in the form again
    assert made(desk) == []


def test_options_are_taken_and_bad_ones_refused(desk: House) -> None:
    good = {"labels": "team=x\r\nyear = 2026", "budget": "2,50", "priority": "5", "at_once": "3"}
    assert send(desk, pipeline="double", input="4", name="a", do="start", **good).status_code == 303
    (batch,) = desk.ask(lambda app: app.batches.find())
    assert (batch.labels, str(batch.budget)) == ({"team": "x", "year": "2026"}, "2.50")

    refused = send(desk, pipeline="double", input="4", name="a", do="start", labels="x", budget="much", priority="9999")
    assert refused.status_code == 422
    for name in ("labels", "budget", "priority"):
        assert f'id="wrong-{name}"' in refused.text


def test_a_pilot_runs_first_and_one_click_releases_the_rest(desk: House) -> None:
    rows = "\n".join(map(str, range(50)))
    answer = send(desk, pipeline="double", rows=rows, name="numbers", do="pilot")
    (batch,) = desk.ask(lambda app: app.batches.find())
    place = answer.headers["location"]
    before = desk.client.get(place, headers=PAGE)
    desk.ask(drain)
    after = desk.client.get(place, headers=PAGE)
    released = desk.client.post(place, data={"do": "release"}, headers=PAGE)
    twice = desk.client.post(place, data={"do": "release"}, headers=PAGE)
    desk.ask(drain)

    assert place == f"/console/batches/{batch.id}/pilot"
    assert "0 of 20 jobs ended" in before.text
    assert "20 of 20 jobs ended" in after.text
    assert "Release the other 30" in after.text
    assert (released.status_code, twice.status_code) == (303, 303)
    assert desk.ask(lambda app: app.batches.progress(batch.id)).completed == 50
    assert [each.kind for each in desk.ask(lambda app: app.batches.events(batch.id))].count("released") == 1


def test_a_batch_that_waits_for_its_pilot_leads_to_it(desk: House) -> None:
    send(desk, pipeline="double", rows="1\n2\n3\n4", name="numbers", do="pilot", pilot="2")
    desk.work()
    [batch] = desk.ask(lambda app: app.batches.find())

    page = desk.client.get(f"/console/batches/{batch.id}", headers=PAGE).text
    stuck = page.partition('id="stuck"')[2].partition("</section>")[0]

    assert f'href="/console/batches/{batch.id}/pilot"' in stuck
    assert "disabled" not in stuck.partition("<details")[0]


def test_the_budget_is_changed_and_the_batch_cancelled_from_the_pilot(desk: House) -> None:
    send(desk, pipeline="double", rows="1\n2\n3\n4", name="numbers", do="pilot", pilot="2")
    (batch,) = desk.ask(lambda app: app.batches.find())
    place = f"/console/batches/{batch.id}/pilot"

    assert desk.client.post(place, data={"do": "budget", "budget": "7,5"}, headers=PAGE).status_code == 303
    assert desk.client.post(place, data={"do": "budget", "budget": "x"}, headers=PAGE).status_code == 422
    assert desk.client.post(place, data={"do": "nothing"}, headers=PAGE).status_code == 422
    assert desk.client.post(place, data={"do": "cancel"}, headers=PAGE).status_code == 303
    now = desk.ask(lambda app: app.batches.get(batch.id))
    assert (str(now.budget), now.state) == ("7.5", "cancelled")


def test_a_reader_may_look_at_a_pilot_and_make_or_release_nothing(desk: House) -> None:
    send(desk, pipeline="double", rows="1\n2\n3\n4", name="numbers", do="pilot", pilot="2")
    (batch,) = desk.ask(lambda app: app.batches.find())
    reader = {**desk.key("read"), **PAGE}
    place = f"/console/batches/{batch.id}/pilot"

    assert "Your key may look" in desk.client.get(place, headers=reader).text
    assert desk.client.post(place, data={"do": "release"}, headers=reader).status_code == 403
    assert desk.client.post("/console/new", files={"name": (None, "x")}, headers=reader).status_code == 403
    assert desk.client.get("/console/new", headers=reader).status_code == 403


def test_a_form_of_another_site_makes_nothing(desk: House) -> None:
    forged = {**PAGE, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    fields = {"pipeline": (None, "double"), "input": (None, "1"), "name": (None, "x"), "do": (None, "start")}

    assert desk.client.post("/console/new", files=fields, headers=forged).status_code == 403
    assert made(desk) == []
