"""The pages about the machine and their API, over real HTTP: what they show, what they change, and who may."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.postgres.migrate import HEAD

from .conftest import PIPELINES, House, code, serving
from .machine_stage import furnish

PAGE = {"Accept": "text/html", "Accept-Language": "en"}
PORTUGUESE = {"Accept": "text/html", "Accept-Language": "pt-BR"}

pytestmark = pytest.mark.timeout(600)


@dataclass
class Machine:
    """A house with a machine at work in it, and the ids of what is there."""

    house: House
    ids: dict[str, int]
    psql: psycopg.Connection

    def page(self, path: str, headers: dict[str, str] = PAGE) -> str:
        answered = self.house.client.get(f"/console/{path}", headers=headers)
        assert answered.status_code == 200, answered.text[:500]
        return str(answered.text)

    def form(self, path: str, headers: dict[str, str] = PAGE, /, **fields: str) -> httpx2.Response:
        answered: httpx2.Response = self.house.client.post(f"/console/{path}", data=fields, headers=headers)
        return answered

    def one(self, sql: str) -> Any:
        row = self.psql.execute(sql.encode()).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def machine(settings: Settings, psql: psycopg.Connection) -> Iterator[Machine]:
    # Without rounds: nobody takes back what a silent executor holds.
    with (
        serving(Retoma(settings=settings, pipelines=PIPELINES), rounds=False) as url,
        httpx2.Client(base_url=url, timeout=240) as client,
    ):
        house = House(url, client, settings)
        yield Machine(house, furnish(house, psql), psql)


def test_every_page_tells_how_things_stand_in_both_languages(machine: Machine) -> None:
    told = {
        "queues": ("manutenção do provedor", "nobody waits"),
        "queues/wait": ("cartas", "At once"),
        "workers": ("arquivo-100.pdf", "step ler"),
        "limits": ("HTTP 503", "breaker open"),
        "schedules": ("toda noite", "from Monday to Friday at 04:00"),
        "calls": ("openai/gpt", "paid again"),
        "costs": ("anthropic/claude", "Dearest jobs"),
        "system": (HEAD, "What the doctor finds"),
        "audit": ("queue.pause", "Before and after"),
    }
    for path, (foreign, english) in told.items():
        assert foreign in machine.page(path), path
        assert english in machine.page(path), path
        assert english not in machine.page(path, PORTUGUESE), path


# — queues —


def test_a_queue_is_told_with_its_lanes_and_who_paused_it(machine: Machine) -> None:
    machine.house.post("/queues/wait/pause", {"reason": "too dear"})
    found = machine.house.get("/queues/wait").json()

    assert (found["waiting"], found["more"], found["executors"]) == (5, False, 2)
    assert (found["paused_reason"], found["paused_by"]) == ("too dear", "local")
    assert [(lane["name"], lane["at_once"], lane["waiting"]) for lane in found["lanes"]] == [("cartas", 3, 5)]
    assert machine.house.get("/queues/double").json()["pace"]["ended"] == 13
    assert code(machine.house.get("/queues/nothing")) == (404, "not_found")


def test_a_queue_is_paused_with_a_reason_resumed_weighed_and_its_lane_limited(machine: Machine) -> None:
    paused = machine.form("queues/double/pause", reason="o provedor caiu")
    shown = machine.page("queues/double")
    machine.form("queues/double/weight", weight="7")
    machine.form("queues/double/limit", lane="nova", at_once="4")
    machine.form("queues/double/resume")

    assert (paused.status_code, paused.headers["location"]) == (303, "/console/queues/double?told=paused")
    assert "Paused: o provedor caiu." in shown
    assert "By local." in shown
    assert machine.one("select (paused_at is null, weight) from retoma.queues where name = 'double'") == ("t", "7")
    assert machine.one("select at_once from retoma.lanes where name = 'nova'") == 4


def test_a_weight_that_is_none_is_said_on_the_page_and_nothing_changes(machine: Machine) -> None:
    refused = machine.form("queues/double/weight", weight="muito")

    assert refused.status_code == 422
    assert "The weight must be a whole number between 1 and 1000" in refused.text
    assert machine.psql.execute("select weight from retoma.queues where name = 'double'").fetchone() is None


# — workers —


def test_silent_workers_come_first_and_each_shows_what_it_holds(machine: Machine) -> None:
    shown = machine.page("workers")

    assert shown.index('data-worker="bia"') < shown.index('data-worker="ana"')
    assert f'/console/jobs/{machine.ids["held"]}"' in shown
    assert "2 of 8 places busy" in shown
    held = machine.house.get("/workers/ana/jobs").json()["jobs"]
    assert [(job["key"], job["step"]) for job in held] == [("arquivo-100.pdf", "ler"), ("arquivo-101.pdf", None)]
    assert "exited" not in shown
    assert 'data-worker="ana"' in machine.page("workers?gone=1")


def test_a_worker_is_asked_to_end_by_the_page_and_by_the_api(machine: Machine) -> None:
    led = machine.form("workers/bia/drain")
    asked = machine.house.post("/workers/ana/drain")

    assert (led.status_code, asked.status_code, len(asked.json()["executors"])) == (303, 202, 2)
    assert "local asked it to end" in machine.page("workers")
    assert machine.one("select count(*) from retoma.workers where drain_requested_by = 'local'") == 3
    assert code(machine.house.post("/workers/nobody/drain")) == (404, "not_found")


# — limits —


def test_closing_a_breaker_wakes_those_who_wait(machine: Machine) -> None:
    before = {each["name"]: each for each in machine.house.get("/limits").json()["limits"]}
    closed = machine.form("limits/openai/gpt/close")
    after = {each["name"]: each for each in machine.house.get("/limits").json()["limits"]}

    assert (before["openai/gpt"]["breaker"], before["openai/gpt"]["waiting"]) == ("open", 1)
    assert closed.status_code == 303
    assert (after["openai/gpt"]["breaker"], after["openai/gpt"]["requests"]) == ("closed", 60)
    assert machine.one(f"select run_at <= now() from retoma.jobs where id = {machine.ids['sleeping']}")
    assert machine.house.post("/breakers/anthropic/claude/close").json() == {"woken": 0}
    assert code(machine.house.post("/breakers/nothing/close")) == (404, "not_found")


def test_a_limit_is_changed_and_a_new_one_set_and_a_wrong_one_kept_in_the_form(machine: Machine) -> None:
    machine.form("limits/anthropic/claude/change", requests="20", tokens="", at_once="2")
    machine.form("limits", name="ollama", at_once="1")
    refused = machine.form("limits", name="novo", requests="-3")

    found = {each["name"]: each for each in machine.house.get("/limits").json()["limits"]}
    assert (found["anthropic/claude"]["requests"], found["anthropic/claude"]["at_once"]) == (20, 2)
    assert (found["ollama"]["requests"], found["ollama"]["at_once"]) == (None, 1)
    assert (refused.status_code, 'value="novo"' in refused.text) == (422, True)
    assert "novo" not in found


# — schedules —


def test_a_schedule_is_made_changed_run_and_removed_by_the_api(machine: Machine) -> None:
    order = {"name": "a/b", "pipeline": "double", "input": 3, "cron": "0 4 * * *", "zone": "America/Sao_Paulo"}
    made = machine.house.post("/schedules", order)
    path = "/schedules/toda%20noite"
    machine.house.post(f"{path}/run")
    shown = machine.house.get(path)
    changed = machine.house.client.patch(f"/api/v1{path}", json={"cron": "30 5 * * *", "input": 9})
    stale = machine.house.client.patch(
        f"/api/v1{path}", json={"cron": "0 6 * * *"}, headers={"If-Match": shown.headers["etag"]}
    )
    gone = machine.house.client.delete(f"/api/v1{path}")

    assert (made.status_code, made.json()["zone"]) == (201, "America/Sao_Paulo")
    assert code(machine.house.post("/schedules", order)) == (409, "conflict")
    assert len(shown.json()["next_runs"]) == 3
    assert shown.json()["next_runs"][0].endswith("04:00:00-03:00")
    assert [run["by_hand"] for run in shown.json()["runs"]] == [True, True]
    assert (changed.status_code, changed.json()["cron"]) == (200, "30 5 * * *")
    assert code(stale) == (412, "precondition_failed")
    assert (gone.status_code, code(machine.house.get(path))) == (204, (404, "not_found"))


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"cron": "every day"}, (422, "invalid")),
        ({"zone": "Mars/Olympus"}, (422, "invalid")),
        ({"input": "no number"}, (422, "validation_failed")),
        ({"pipeline": "nothing"}, (404, "pipeline_unknown")),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(machine: Machine, order: dict[str, Any], told: tuple[int, str]) -> None:
    whole = {"name": "x", "pipeline": "double", "input": 1, "cron": "0 4 * * *", **order}

    status, problem = code(machine.house.post("/schedules", whole))

    assert status >= 400
    assert status == told[0] or problem == told[1]
    assert machine.one("select count(*) from retoma.schedules where name = 'x'") == 0


def test_a_schedule_is_made_and_acted_on_by_its_page(machine: Machine) -> None:
    said = {"name": "semanal", "pipeline": "double", "cron": "0 9 * * 1", "zone": "UTC", "input": "5"}
    made = machine.form("schedules", **said)
    refused = machine.form("schedules", **{**said, "name": "outra", "cron": "nunca"})
    machine.form("schedules/semanal/pause")
    paused = machine.page("schedules", PORTUGUESE)
    machine.form("schedules/semanal/resume")
    machine.form("schedules/semanal/run")
    machine.form("schedules/semanal/change", cron="0 10 * * 1", zone="UTC", input="")

    assert made.headers["location"] == "/console/schedules?told=made"
    assert (refused.status_code, 'value="outra"' in refused.text) == (422, True)
    assert "Pausado desde" in paused
    assert "toda segunda-feira às 09:00" in paused
    assert machine.one("select cron from retoma.schedules where name = 'semanal'") == "0 10 * * 1"
    assert machine.one("select count(*) from retoma.schedule_runs where schedule = 'semanal'") == 1
    machine.form("schedules/semanal/remove")
    assert machine.one("select count(*) from retoma.schedules where name = 'semanal'") == 0


# — calls and costs —


def test_calls_are_filtered_and_their_content_is_shown_to_those_who_may_and_ask(machine: Machine) -> None:
    id = machine.ids["call"]

    assert "anthropic/claude" not in machine.page("calls?provider=openai")
    assert machine.page("calls?state=doubtful").count("in doubt</span>") == 4
    assert "Nothing fits the filter" in machine.page("calls?model=nothing")
    reader, privy = machine.house.key("read"), machine.house.key("read", "content:read")
    assert "jabuticaba" not in machine.page(f"calls/{id}", {**PAGE, **privy})
    assert "jabuticaba" in machine.page(f"calls/{id}?body=1", {**PAGE, **privy})
    assert "your key lacks the scope" in machine.page(f"calls/{id}?body=1", {**PAGE, **reader})
    one = machine.house.get("/calls?model=claude&limit=200", headers=reader).json()["calls"]
    assert {call["provider"] for call in one} == {"anthropic"}


def test_an_empty_field_of_the_filter_is_taken_out_of_the_address(machine: Machine) -> None:
    led = machine.house.client.get("/console/calls?provider=openai&model=&state=", headers=PAGE)

    assert (led.status_code, led.headers["location"]) == (303, "/console/calls?provider=openai")


def test_costs_tell_what_was_wasted_and_what_nobody_knows(machine: Machine) -> None:
    shown = machine.page("costs?by=label&days=90")
    told = machine.house.client.get("/console/costs/csv?by=model&days=90", headers=PAGE)
    rows = list(csv.DictReader(io.StringIO(told.content.decode("utf-8-sig"))))
    labels = machine.house.get("/spend?by=label").json()["spend"]

    assert "cliente=ana" in shown
    assert '<svg class="chart"' in shown
    assert [row["model"] for row in rows] == ["openai/gpt", "anthropic/claude"]
    assert sum(int(row["unpriced"]) for row in rows) == 1
    assert [each["name"] for each in labels] == ["cliente=ana"]
    assert machine.house.get("/spend?by=label&until=2001-01-01T00:00:00Z").json()["spend"] == []
    assert [each["budget"] for each in machine.house.get("/budgets").json()["budgets"]] == ["20"]


def test_a_price_is_set_from_a_day_on_and_its_story_is_told(machine: Machine) -> None:
    led = machine.form("costs/prices", provider="openai", model="gpt", input="2,50", output="10", since="2026-01-31")
    refused = machine.form("costs/prices", provider="openai", model="gpt", input="muito")
    story = machine.house.get("/prices/history?provider=openai&model=gpt").json()["prices"]

    assert (led.status_code, refused.status_code) == (303, 422)
    assert [(each["since"], float(each["input"])) for each in story] == [("2026-01-31", 2.5)]
    assert "2026-01-31" in machine.page("costs?provider=openai&model=gpt")


# — system and audit —


def test_the_doctor_says_over_http_what_it_says_in_the_terminal(machine: Machine) -> None:
    found = machine.house.get("/system/doctor").json()
    told = {each["what"]: each for each in found["findings"]}
    spoken = machine.house.get("/system/doctor", headers={"Accept-Language": "pt-BR"}).json()["findings"]

    assert {"database", "schema", "version", "durability", "workers", "retention", "sandbox", "keys"} <= told.keys()
    assert (told["silence"]["level"], told["queues"]["level"], found["level"]) == ("amber", "amber", "amber")
    assert {"banco de dados", "esquema", "retenção"} <= {each["what"] for each in spoken}
    assert told["silence"]["next"] in machine.page("system")


def test_a_reader_is_told_how_accounts_and_keys_stand_and_not_their_names(machine: Machine) -> None:
    reader = machine.house.key("read")
    told = {each["what"]: each for each in machine.house.get("/system/doctor", headers=reader).json()["findings"]}

    assert told["account"]["seen"] == "seen with the scope operate"
    assert "superuser" not in machine.page("system", {**PAGE, **reader})


def test_the_state_of_the_system_has_sizes_rounds_and_the_pool(machine: Machine) -> None:
    state = machine.house.get("/system/state").json()

    assert state["revision"] == state["needed_revision"]
    assert {each["name"] for each in state["rounds"]} >= {"look_after", "mend", "rest_lanes", "sweep"}
    assert "retoma.jobs" in {each["name"] for each in state["tables"]}
    assert (state["streams"], state["pool_most"]) == (0, machine.house.settings.pool_connections)
    assert {each["kind"] for each in state["overstays"]} >= {"jobs", "calls"}


def test_the_audit_is_filtered_and_taken_along(machine: Machine) -> None:
    machine.form("queues/double/weight", weight="3")

    rows = machine.house.client.get("/console/audit/csv?action=queue.weigh", headers=PAGE)
    (row,) = csv.DictReader(io.StringIO(rows.content.decode("utf-8-sig")))
    shown = machine.page("audit?object=queue:double")

    assert (row["action"], row["object_id"], row["who"]) == ("queue.weigh", "double", "local")
    assert "queue.weigh" in shown
    assert "queue.pause" not in shown
    assert "Nothing fits the filter" in machine.page("audit?until=2001-01-01T00:00")


def test_a_reader_may_look_and_change_nothing_and_the_audit_is_for_admins(machine: Machine) -> None:
    reader = {**PAGE, **machine.house.key("read")}
    changes = (
        "queues/double/pause", "queues/double/weight", "workers/ana/drain", "limits/openai/gpt/close", "schedules",
        "schedules/toda noite/remove", "costs/prices",
    )  # fmt: skip

    assert [machine.form(path, reader).status_code for path in changes] == [403] * len(changes)
    assert machine.house.client.get("/console/audit", headers=reader).status_code == 403
    assert "Pause or weigh" not in machine.page("queues", reader)
    assert "Audit" not in machine.page("queues", reader)


def test_another_site_cannot_make_a_browser_change_something(machine: Machine) -> None:
    forged = machine.form("queues/double/pause", {**PAGE, "Origin": "https://elsewhere.example"}, reason="x")

    assert forged.status_code == 403
    assert machine.psql.execute("select from retoma.queues where name = 'double'").fetchone() is None


def test_an_empty_machine_says_what_to_do(still_house: House) -> None:
    for path, told in (
        ("workers", "Nobody works"), ("limits", "No provider was limited"), ("schedules", "No schedule yet"),
        ("calls", "Calls are here as soon as"), ("costs", "Nothing was asked"),
    ):  # fmt: skip
        assert told in still_house.client.get(f"/console/{path}", headers=PAGE).text, path
