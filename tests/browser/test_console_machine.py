"""The pages about the machine in a real Chromium: for everybody, on a phone, in both languages, without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import psycopg
import pytest
from playwright.sync_api import expect

from retoma import Retoma, Settings

from ..web.archive import apart  # noqa: TID252 - the stage is that of the API's own tests
from ..web.conftest import PIPELINES, House, serving  # noqa: TID252
from ..web.machine_stage import furnish  # noqa: TID252
from .conftest import Visit
from .test_accessibility import Check, axe, check

__all__ = ["axe", "check"]

PHONE = {"width": 390, "height": 800}


@pytest.fixture
def machine(settings: Settings, psql: psycopg.Connection) -> Iterator[tuple[House, dict[str, int]]]:
    with (
        serving(Retoma(settings=settings, pipelines=PIPELINES), rounds=False) as url,
        httpx2.Client(base_url=url, timeout=240) as client,
    ):
        house = House(url, client, settings)
        yield house, apart(lambda: furnish(house, psql))


def test_the_pages_are_for_everybody_in_both_languages_and_fit_a_phone(
    machine: tuple[House, dict[str, int]], visit: Visit, check: Check
) -> None:
    house, ids = machine
    pages = ("queues", "queues/wait", "workers", "limits", "schedules", "calls", f"calls/{ids['call']}?body=1")
    desk = visit(f"{house.url}/console/queues", locale="en")
    phone = visit(f"{house.url}/console/queues", viewport=PHONE)
    house_pages = (
        "access",
        "access?tab=keys",
        "access?tab=sessions",
        "webhooks",
        "alerts",
        "new",
        "new?pipeline=double",
    )
    for path in (*pages, "costs?by=label", "system", "audit", *house_pages):
        desk.goto(f"{house.url}/console/{path}")
        check(desk, f"{path}, at a desk")
        phone.goto(f"{house.url}/console/{path}")
        check(phone, f"{path}, on a phone")
        assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert (desk.locator("html").get_attribute("lang"), phone.locator("html").get_attribute("lang")) == (
            "en", "pt-BR",
        )  # fmt: skip


def test_a_queue_is_paused_a_breaker_closed_and_a_worker_asked_to_end_with_the_mouse(
    machine: tuple[House, dict[str, int]], visit: Visit
) -> None:
    house, _ = machine
    page = visit(f"{house.url}/console/queues")
    card = page.locator("[data-queue=double]")
    card.get_by_text("Pausar ou mudar o peso").click()
    card.get_by_label("Por quê, para quem perguntar depois").fill("o provedor caiu")
    card.get_by_role("button", name="Pausar").click()
    expect(page.get_by_text("Pausada: o provedor caiu. Por local.")).to_be_visible()
    page.get_by_role("button", name="Retomar").click()
    expect(page.get_by_text("A fila voltou a andar.")).to_be_visible()

    page.goto(f"{house.url}/console/limits")
    page.locator("[data-limit='openai/gpt']").get_by_role("button", name="Testar agora").click()
    expect(page.locator("[data-limit='openai/gpt']").get_by_text("liberado")).to_be_visible()

    page.goto(f"{house.url}/console/workers")
    page.locator("[data-worker=ana]").get_by_role("button", name="Pedir que encerre").click()
    expect(page.locator("[data-worker=ana]").get_by_text("local pediu que encerre")).to_be_visible()


def test_without_javascript_a_schedule_is_made_and_a_wrong_one_is_explained(
    machine: tuple[House, dict[str, int]], visit: Visit
) -> None:
    house, _ = machine
    page = visit(f"{house.url}/console/schedules", java_script_enabled=False, locale="en")

    def fill(cron: str) -> None:
        form = page.locator("form[action$='/console/schedules']")
        form.get_by_label("Name").fill("weekly")
        form.get_by_label("Pipeline").select_option("double")
        form.get_by_label("When (cron)").fill(cron)
        form.get_by_label("Input (JSON)").fill("5")
        form.get_by_role("button", name="Create").click()

    fill("sometimes")
    expect(page.get_by_role("alert")).to_contain_text("sometimes")
    expect(page.locator("#name")).to_have_value("weekly")
    fill("0 9 * * 1")
    expect(page.get_by_text("every Monday at 09:00")).to_be_visible()
