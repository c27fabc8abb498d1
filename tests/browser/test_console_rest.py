"""What is left over: many tabs, forged forms, dead letters that are discarded, batches that are re-planned."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from retoma.pipelines import ALL
from retoma.pipelines.books.ports import Editor
from retoma.pipelines.books.text.editors import LocalEditor
from retoma.providers import Classifier
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical

from ..web.archive import apart  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import House, Open  # noqa: TID252
from .conftest import Visit, keep
from .test_accessibility import PHONE, Check, axe, check
from .test_console_batches import fits, made, worked

__all__ = ["axe", "check"]


def pictures(page: Page, name: str) -> None:
    """Both schemes, and a phone, on which nothing stands out at the side."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        keep(page, f"{name}-{scheme}")
    size = page.viewport_size
    page.set_viewport_size(PHONE)
    assert fits(page), name
    keep(page, f"{name}-phone")
    assert size is not None
    page.set_viewport_size(size)


def test_seven_tabs_are_open_and_the_eighth_works_and_the_first_still_follows(open_house: Open, visit: Visit) -> None:
    house = open_house()
    first = visit(f"{house.url}/console/", locale="en-US")
    tabs = [first]
    for _ in range(7):
        page = first.context.new_page()
        page.goto(f"{house.url}/console/")
        expect(page.locator("#glance")).to_contain_text("Nothing is under way")
        tabs.append(page)

    made(house, "double", range(5))

    for page in (tabs[7], first):
        expect(page.locator("#card-waiting .figure-value")).to_have_text("5")
    tabs[7].get_by_role("link", name="Batches", exact=True).first.click()
    expect(tabs[7].get_by_role("heading", level=1)).to_have_text("Batches")


def test_a_reader_in_a_browser_who_forges_a_form_is_refused(open_house: Open, visit: Visit) -> None:
    house = open_house()
    key = apart(lambda: house.key("read"))["Authorization"].removeprefix("Bearer ")
    page = visit(f"{house.url}/console/queues", locale="en-US")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")

    sent = """async (path) => (await fetch(path, {method: "POST", body: new URLSearchParams({reason: "x"})})).status"""
    answered = [page.evaluate(sent, f"/console/{place}") for place in ("queues/double/pause", "operations", "new")]

    assert answered[:2] == [403, 403]
    assert answered[2] in (403, 404, 405)


def test_on_a_phone_the_names_in_the_menus_are_whole_and_the_place_of_the_page_is_in_view(
    open_house: Open, given: dict[type, object], visit: Visit
) -> None:
    house = open_house(
        extensions=ALL, providers={**given, Classifier: LocalClassifier(Lexical()), Editor: LocalEditor(Lexical())}
    )
    page = visit(f"{house.url}/console/audit", viewport={"width": 390, "height": 844})
    broken = page.locator(".top nav a").evaluate_all(
        "links => links.filter((each) => { const text = document.createRange(); text.selectNodeContents(each);"
        " return text.getClientRects().length > 1; }).map((each) => each.textContent)"
    )

    assert broken == []
    # A link may end between two pixels.
    expect(page.locator(".console-menu a[aria-current]")).to_be_in_viewport(ratio=0.9)
    assert fits(page)


def stumbled(house: House) -> None:
    def fill() -> None:
        for each in range(3):
            house.enqueue("stumble", f"'file {each}'", key=f"inbox/contract-{each}.pdf")
        house.work()

    apart(fill)


def test_a_dead_letter_is_discarded_found_among_the_discarded_and_reinstated(
    open_house: Open, visit: Visit, check: Check
) -> None:
    house = open_house()
    stumbled(house)
    page = visit(f"{house.url}/console/dead-letters", locale="en-US")
    pictures(page, "dead-letters")
    page.get_by_role("link", name="inbox/contract-1.pdf").click()
    page.locator("#discard").get_by_label("Why").fill("a scan of nothing")
    page.locator("#discard").get_by_role("button", name="Discard").click()
    expect(page.get_by_text("The job was discarded")).to_be_visible()
    check(page, "a discarded job")
    pictures(page, "discarded-job")

    page.goto(f"{house.url}/console/dead-letters")
    expect(page.locator("[data-job]")).to_have_count(2)
    page.get_by_role("link", name="Discarded", exact=True).click()
    expect(page.locator("[data-job]")).to_have_count(1)
    check(page, "the discarded")
    pictures(page, "discarded")
    page.locator("[name=ids]").check()
    page.get_by_role("button", name="Reinstate the ticked…").click()
    expect(page.get_by_role("heading", name="Reinstate 1 discarded job?")).to_be_visible()
    page.get_by_role("button", name="Reinstate 1 job").click()
    expect(page.locator('[data-operation][data-state="done"]')).to_have_count(1)
    page.goto(f"{house.url}/console/dead-letters?lang=pt")
    expect(page.locator("[data-job]")).to_have_count(3)
    pictures(page, "dead-letters-pt")


def test_the_rest_of_a_batch_is_re_planned_and_the_cohorts_stand_side_by_side(
    open_house: Open, visit: Visit, check: Check
) -> None:
    house = open_house()
    id = made(house, "double", range(6), configuration={"prompt": "long"}, pilot=2)
    worked(house)
    page = visit(f"{house.url}/console/batches/{id}?tab=configuration", locale="en-US")
    check(page, "before the re-plan")

    page.locator("#replan-configuration").fill('{"prompt": "short"}')
    page.locator("#replan-note").fill("a shorter prompt")
    page.get_by_role("button", name="Re-plan the rest").click()

    expect(page.locator("#said")).to_contain_text("new configuration")
    expect(page.locator("[data-cohort]")).to_have_count(2)
    assert house.post(f"/batches/{id}/release").status_code == 200
    worked(house)
    page.goto(f"{house.url}/console/batches/{id}?tab=configuration")
    expect(page.locator("[data-cohort='2']")).to_contain_text(re.compile("4\\s+4 ended"))
    check(page, "the cohorts")
    pictures(page, "cohorts")
    page.goto(f"{house.url}/console/batches/{id}?tab=configuration&lang=pt")
    expect(page.get_by_role("heading", name="Grupos comparados")).to_be_visible()
    pictures(page, "cohorts-pt")


def test_a_queue_is_paused_for_some_minutes_and_says_until_when(open_house: Open, visit: Visit, check: Check) -> None:
    house = open_house()
    apart(lambda: house.enqueue("double", 1))
    page = visit(f"{house.url}/console/queues/double", locale="en-US")
    page.get_by_label("Why, for those who wonder later").fill("the provider is down")
    page.get_by_label("For minutes").fill("90")
    page.get_by_role("button", name="Pause", exact=True).click()

    expect(page.locator("[data-until]")).to_contain_text("Goes on by itself")
    check(page, "a paused queue")
    pictures(page, "paused-until")
