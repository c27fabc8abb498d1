"""Many jobs at once, as a person does it: errors by cause, a count before the decision; and the life of one job."""

from __future__ import annotations

import psycopg
import pytest
from playwright.sync_api import Page, expect

from ..web.archive import apart  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import House, Open  # noqa: TID252
from .conftest import Visit, keep
from .test_accessibility import PHONE, Check, axe, check

__all__ = ["axe", "check"]

FAILED = 12


@pytest.fixture
def house(open_house: Open) -> House:
    """With a dozen jobs that failed for two reasons, one of them after its worker was killed, and one that is done."""
    house = open_house()

    def filled() -> None:
        for each in range(FAILED):
            name = f"'file {each}'" if each else "disco cheio"
            house.enqueue("stumble", name, key=f"inbox/contract-{each}.pdf")
        house.enqueue("double", 21, key="sums/answer")
        house.work()
        house.ask(lambda app: app.jobs.retry(1))
        house.work()

    apart(filled)
    with psycopg.connect(str(house.settings.database_url), autocommit=True) as psql:
        # What the first attempt looks like when its worker is killed; and an hour of waiting after it.
        psql.execute("update retoma.attempts set ending = 'crashed', error = null where job_id = 1 and fence = 1")
        for table, columns in (("attempts", ("claimed_at", "ended_at")), ("checkpoints", ("saved_at",))):
            moved = ", ".join(f"{each} = {each} - interval '1 hour'" for each in columns)
            psql.execute(f"update retoma.{table} set {moved} where job_id = 1 and fence = 1".encode())
        psql.execute("update retoma.jobs set created_at = created_at - interval '61 minutes' where id = 1")
        psql.execute(
            "insert into retoma.calls (key, provider, model, request, answer, state, answered_at, job_id, step, cost, "
            "cost_basis, input_tokens, output_tokens) values ('k', 'openai', 'gpt-5-mini', '{\"messages\": []}', "
            "'{\"said\": \"yes\"}', 'answered', now(), 1, 'look', 0.0042, 'own', 1200, 80)"
        )
    return house


def picture(page: Page, name: str) -> None:
    """In both schemes."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        keep(page, f"{name}-{scheme}")


def test_a_cause_is_counted_confirmed_and_retried_and_the_rest_is_left(
    house: House, visit: Visit, check: Check
) -> None:
    page = visit(f"{house.url}/console/errors", locale="en-US")
    group = page.locator("[data-fingerprint]", has_text="11 jobs")
    expect(group).to_be_visible()
    check(page, "errors")
    picture(page, "errors")

    group.get_by_role("link", name="Retry these 11 jobs…").click()
    expect(page.get_by_role("heading", name="Retry 11 jobs?")).to_be_visible()
    check(page, "the question")
    picture(page, "question")
    page.get_by_role("button", name="Retry 11 jobs").click()

    done = page.locator("[data-operation]").first
    expect(done).to_have_attribute("data-state", "done")
    expect(done).to_contain_text("11 of 11 found")
    check(page, "operations")
    picture(page, "operations")
    page.goto(f"{house.url}/console/dead-letters")
    expect(page.locator("[data-job]")).to_have_count(1)


def test_ticked_dead_letters_are_retried_without_a_script_too(house: House, visit: Visit) -> None:
    page = visit(f"{house.url}/console/dead-letters", locale="en-US", java_script_enabled=False)
    boxes = page.locator("input[name=ids]")
    expect(boxes).to_have_count(FAILED)
    boxes.nth(0).check()
    boxes.nth(3).check()

    page.get_by_role("button", name="Retry the ticked…").click()
    expect(page.get_by_role("heading", name="Retry 2 jobs?")).to_be_visible()
    page.get_by_role("button", name="Retry 2 jobs").click()

    expect(page.locator("[data-operation]")).to_have_count(1)


def test_the_life_of_a_job_is_seen_and_it_is_restarted_from_a_step(house: House, visit: Visit, check: Check) -> None:
    page = visit(f"{house.url}/console/jobs/1")
    expect(page.locator("[data-note=crashed]")).to_have_count(1)
    expect(page.locator("[data-note=restored]")).to_have_count(1)
    check(page, "job")
    picture(page, "job")
    page.set_viewport_size(PHONE)
    check(page, "job on a phone")
    picture(page, "job-phone")

    page.get_by_label("Desde a etapa").select_option("look")
    page.get_by_role("button", name="O que será pago de novo?").click()
    expect(page.locator("#acts + .acts")).to_contain_text("Será refeito: look.")
    page.get_by_role("button", name="Recomeçar desde “look”").click()

    expect(page.get_by_text("Posto de lado: restart")).to_be_visible()
    page.goto(f"{house.url}/console/dead-letters")
    check(page, "dead letters on a phone")
    picture(page, "dead-letters-phone")


def test_the_search_box_leads_to_the_file_that_is_asked_for(house: House, visit: Visit, check: Check) -> None:
    page = visit(f"{house.url}/console/dead-letters")
    page.keyboard.press("/")
    page.keyboard.type("contract-3.pdf")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Tarefa 4")

    page.goto(f"{house.url}/console/search?q=ninguem")
    expect(page.get_by_text("Nada foi encontrado")).to_be_visible()
    check(page, "a search that finds nothing")
