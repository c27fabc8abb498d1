"""The console's overview, its batches and the page of a batch, in a real Chromium."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from retoma import Retoma
from retoma.testing import crash, drain

from ..web.archive import apart  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import PIPELINES, House, Open  # noqa: TID252
from . import console_app
from .conftest import Visit
from .test_accessibility import Check, axe, check

__all__ = ["axe", "check"]

PHONE = {"width": 360, "height": 740}


def made(house: House, pipeline: str, inputs: Any, **options: Any) -> int:
    jobs = [{"input": each, "key": f"carta-{place}"} for place, each in enumerate(inputs)]
    order = {"pipeline": pipeline, "name": f"Cartas: {pipeline}", "jobs": jobs, **options}
    return int(house.post("/batches", order).json()["id"])


def worked(house: House) -> None:
    apart(house.work)


def answered(house: House, job: int) -> None:
    """Bring a job that waits for an answer to its end."""
    assert house.post(f"/jobs/{job}/signal", {"name": "answer", "value": "go on"}).status_code == 200
    worked(house)


def fits(page: Page) -> bool:
    """Whether nothing stands out at the side."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_a_batch_that_stalls_is_explained_planned_and_resumed_on_its_page(
    open_house: Open, visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "held"
    held.touch()
    monkeypatch.setenv("CONSOLE_FOLDER", str(tmp_path))
    house = open_house(
        pipelines=(console_app.letters,),
        lease_seconds=3.0,
        heartbeat_seconds=0.5,
        sweep_seconds=0.5,
        watchdog_seconds=0.5,
    )
    id = made(house, "letters", range(8), stall_seconds=1.0)
    page = visit(f"{house.url}/console/batches/{id}")
    reference = f"{console_app.__file__}:app"
    app = console_app.made(house.settings)
    apart(lambda: asyncio.run(crash(app, after=3, steps=11, at_once=8, reference=reference)))

    stuck = page.locator("#stuck")
    expect(stuck).to_contain_text("Este lote está travado")
    expect(stuck).to_contain_text("3 de 8 terminaram, e nada disso se perdeu.")
    expect(stuck).to_contain_text("ativo atende a fila letters")
    expect(stuck.locator("code").first).to_contain_text("retoma worker --queues letters")
    page.locator("#resume").click()
    expect(page.locator("#set-skips")).to_contain_text("3")
    expect(page.locator("#set-continues")).to_contain_text("5")
    page.locator("#set-continues a").click()
    expect(page.locator("tr[data-row]")).to_have_count(5)
    page.go_back()
    page.locator("#go").click()
    expect(page.locator("#said")).to_contain_text("nenhum worker atende a fila dele ainda")

    held.unlink()
    apart(lambda: asyncio.run(drain(console_app.made(house.settings))))

    expect(page.locator("#summary .badge").first).to_have_text("Concluído")
    expect(page.locator("#summary")).to_contain_text("8 de 8")
    page.goto(f"{house.url}/console/batches/{id}?tab=history")
    expect(page.locator("#tab")).to_contain_text("Continuou de onde parou")


def test_ticks_survive_an_update_and_updates_can_be_paused(open_house: Open, visit: Visit) -> None:
    house = open_house()
    id = made(house, "wait", ["a", "b", "c", "d"])
    worked(house)
    first, second, third, _ = (each["id"] for each in house.get(f"/batches/{id}/jobs").json()["jobs"])
    page = visit(f"{house.url}/console/batches/{id}")
    tick = page.locator(f"#tick-{first}")
    tick.check()
    tick.evaluate("each => { each.kept = true }")

    answered(house, second)
    expect(page.locator(f"#job-row-{second}")).to_have_attribute("data-state", "completed")
    assert tick.is_checked()
    assert tick.evaluate("each => each.kept"), "it is the same element, morphed and not replaced"

    page.locator("h1").click()
    page.keyboard.press("p")
    button = page.locator("[data-live-pause]")
    expect(button).to_have_attribute("aria-pressed", "true")
    answered(house, third)
    expect(page.locator("#live-paused")).to_contain_text("Atualização pausada.")
    page.wait_for_function("/[1-9]/.test(document.getElementById('live-paused').textContent)")
    expect(page.locator(f"#job-row-{third}")).not_to_have_attribute("data-state", "completed")
    button.click()
    expect(page.locator(f"#job-row-{third}")).to_have_attribute("data-state", "completed")
    expect(page.locator("#live-paused")).to_be_empty()
    assert tick.is_checked()


def test_the_mosaic_opens_the_job_that_is_pointed_at(open_house: Open, visit: Visit) -> None:
    house = open_house()
    id = made(house, "double", range(40))
    ids = [each["id"] for each in house.get(f"/batches/{id}/jobs").json()["jobs"]]
    page = visit(f"{house.url}/console/batches/{id}")
    page.locator("canvas.mosaic").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#mosaic-at")).to_have_text("Documento 3: Pendente")

    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/jobs/{ids[2]}")
    page.goto(f"{house.url}/console/batches/{id}")
    page.locator("canvas.mosaic").click(position={"x": 5, "y": 5})
    page.wait_for_url(f"**/console/jobs/{ids[0]}")


@pytest.fixture
def busy(open_house: Open) -> tuple[House, int]:
    """A house with a batch that failed in part and one that waits."""
    house = open_house()
    id = made(house, "stumble", [str(each) for each in range(30)], labels={"equipe": "jurídico"})
    made(house, "double", range(5))
    apart(lambda: asyncio.run(drain(Retoma(settings=house.settings, pipelines=PIPELINES), queues=["stumble"])))
    return house, id


def test_the_overview_is_live(open_house: Open, visit: Visit) -> None:
    house = open_house()
    page = visit(f"{house.url}/console/", locale="en-US")
    expect(page.locator("#glance")).to_contain_text("Nothing is under way")

    made(house, "double", range(5))

    expect(page.locator("#card-waiting .figure-value")).to_have_text("5")
    expect(page.locator(".batch-cards")).to_contain_text("Cartas: double")
    worked(house)
    expect(page.locator("#glance")).to_contain_text("Nothing is under way")


def test_the_pages_are_for_everybody_on_every_screen(busy: tuple[House, int], visit: Visit, check: Check) -> None:
    house, id = busy
    tabs = ("documents", "errors", "steps", "charts", "timeline", "costs", "configuration", "history")
    paths = (
        "",
        "batches",
        f"batches/{id}/resume",
        f"batches/{id}/cancel",
        *(f"batches/{id}?tab={tab}" for tab in tabs),
    )
    wide = visit(f"{house.url}/console/")
    narrow = visit(f"{house.url}/console/", viewport=PHONE, locale="en-US")
    for path in paths:
        wide.goto(f"{house.url}/console/{path}")
        check(wide, f"/console/{path}")
        narrow.goto(f"{house.url}/console/{path}")
        assert fits(narrow), path
    wide.goto(f"{house.url}/console/batches/{id}?tab=charts")
    expect(wide.locator("#charts canvas")).to_have_count(2)
    plain = visit(f"{house.url}/console/batches/{id}?tab=charts", java_script_enabled=False)
    plain.locator("#chart-table summary").click()
    expect(plain.locator("#chart-table tbody tr").first).to_be_visible()
