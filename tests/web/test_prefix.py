"""The site under a prefix: mounted in an application, told by uvicorn's root_path, or told by a proxy in a header."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError
from retoma.postgres import migrate
from retoma.testing import drain
from retoma.web import site

from .archive import HTML, LEASE, apart
from .conftest import House, Open, code, double, hosting
from .prefixed import EXTENSIONS, KEY, PREFIX, WAYS, Prefixed, prefixed

OPENED = {"Authorization": f"Bearer {KEY}"}
BATCH = {"pipeline": "double", "name": "two", "jobs": [{"input": 1}, {"input": 2}]}
LED = re.compile(
    r'\b(href|src|action|hx-get|hx-post|hx-delete|data-(?:[a-z]+-)?(?:url|live|status|projects|lots|runs))="([^"]*)"'
)


@pytest.fixture(params=WAYS)
def house(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Iterator[Prefixed]:
    with prefixed(request.param, settings, tmp_path / "blobs") as found:
        yield found
    assert found.strays == [], "somebody was led out of the prefix"


@pytest.fixture
def client(house: Prefixed) -> Iterator[httpx2.Client]:
    root = house.url.removesuffix(PREFIX)
    with httpx2.Client(base_url=root, headers=OPENED, timeout=240) as client:
        yield client


def work(house: Prefixed) -> None:
    apart(
        lambda: asyncio.run(
            drain(Retoma(settings=house.settings, pipelines=[double], extensions=EXTENSIONS, providers=house.given))
        )
    )


def filled(client: httpx2.Client) -> tuple[str, int]:
    """A document and an execution, sent as programs do it, by the addresses that the answers name."""
    sent = client.post(f"{PREFIX}/documents", files=[("files", ("contrato.txt", LEASE.encode()))])
    (document,) = sent.json()["documents"]
    assert sent.headers["location"] == f"{PREFIX}/documents/{document['id']}"
    assert document["status_url"] == f"{PREFIX}/documents/{document['id']}/status"
    api = f"{PREFIX}/classificador/api"
    project = client.post(f"{api}/projetos", json={"nome": "Março"}).json()["id"]
    client.post(f"{api}/lotes/{project}/upload", files=[("arquivos", ("a.txt", LEASE.encode()))])
    begun = client.post(f"{api}/projetos/{project}/executar")
    run = begun.json()["execucao_id"]
    assert begun.headers["location"] == f"{api}/execucoes/{run}"
    return document["id"], run


def test_every_link_of_every_page_stays_under_the_prefix_and_leads_somewhere(
    house: Prefixed, client: httpx2.Client
) -> None:
    id, run = filled(client)
    work(house)
    waiting = [
        f"{PREFIX}/{path}"
        for path in (
            "", "login", "documents/nowhere", f"documents/{id}?lang=en", "documents/search?q=aviso", "classificador",
            f"classificador/execucoes/{run}",
        )
    ]  # fmt: skip
    seen: dict[str, int] = {}
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        answer = client.get(path, headers=HTML)
        seen[path] = answer.status_code
        if "location" in answer.headers:
            waiting.append(answer.headers["location"])
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        for kind, place in LED.findall(answer.text):
            if place.startswith("#") or not place:
                continue
            assert place.startswith(f"{PREFIX}/"), (path, kind, place)
            if kind in ("href", "src", "data-url") and "lang=" not in place and "exportar" not in place:
                waiting.append(unescape(place).partition("#")[0])

    pages = {path for path in seen if "/static/" not in path}
    assert f"{PREFIX}/classificador/lotes" in pages
    assert len(pages) > 15
    bad = {path: status for path, status in seen.items() if status >= 400}
    assert bad == {f"{PREFIX}/documents/nowhere": 404}


def test_every_address_that_a_program_is_told_stays_under_the_prefix(house: Prefixed, client: httpx2.Client) -> None:
    id, _ = filled(client)
    api = f"{PREFIX}/api/v1"
    jobs = [client.post(f"{api}/jobs", json={"pipeline": "double", "input": number}) for number in range(2)]
    batch = client.post(f"{api}/batches", json=BATCH)
    work(house)
    again = client.post(f"{PREFIX}/documents/{id}/reprocess")

    told = [each.headers["location"] for each in (*jobs, batch, again)]
    told += [each.json()["status_url"] for each in (*jobs, batch)]
    link = client.get(f"{api}/jobs?limit=1").headers["link"]
    told.append(link.partition(">")[0][1:])
    for place in told:
        assert place.startswith(f"{PREFIX}/"), place
        assert client.get(place).status_code == 200, place
    nowhere = client.get(f"{api}/jobs/404")
    assert (code(nowhere), nowhere.json()["instance"]) == ((404, "not_found"), f"{api}/jobs/404")
    assert code(client.get(f"{PREFIX}/nowhere")) == (404, "not_found")


def test_a_stream_of_events_is_read_under_the_prefix(house: Prefixed, client: httpx2.Client) -> None:
    batch = client.post(f"{PREFIX}/api/v1/batches", json=BATCH).headers["location"]
    work(house)

    with client.stream("GET", f"{batch}/events", headers={"Accept": "text/event-stream"}) as stream:
        text = stream.read().decode()

    assert stream.headers["content-type"].startswith("text/event-stream")
    assert re.findall(r"^event: (\w+)", text, re.MULTILINE)[-1] == "end"


def test_who_signs_in_under_the_prefix_stays_there_and_so_does_the_key(house: Prefixed) -> None:
    root = house.url.removesuffix(PREFIX)
    with httpx2.Client(base_url=root, headers=HTML, timeout=240) as browser:
        led = browser.get(f"{PREFIX}/documents?status=FAILED")
        assert led.headers["location"] == f"{PREFIX}/login?next=%2Ftheir%2Fx%2Fdocuments%3Fstatus%3DFAILED"
        inside = browser.get(f"{PREFIX}/documents", headers={"HX-Request": "true", "HX-Target": "section#documents"})
        assert inside.headers["hx-redirect"] == f"{PREFIX}/login"
        for place, wanted in (
            (f"{PREFIX}/documents?status=FAILED", f"{PREFIX}/documents?status=FAILED"),
            ("/elsewhere", f"{PREFIX}/"),
            (f"{PREFIX}/../elsewhere", f"{PREFIX}/"),
            (f"{PREFIX}/%2e%2E/elsewhere", f"{PREFIX}/"),
            (f"{PREFIX}//evil.example", f"{PREFIX}/"),
            (f"{PREFIX}more/a", f"{PREFIX}/"),
        ):
            entered = browser.post(f"{PREFIX}/login", data={"key": KEY, "next": place})
            assert (entered.status_code, entered.headers["location"]) == (303, wanted)
            assert f"; Path={PREFIX};" in entered.headers["set-cookie"]
        assert browser.get(f"{PREFIX}/documents").status_code == 200, "the cookie is sent where it is needed"
        spoken = browser.get(f"{PREFIX}/documents?lang=en")
        assert f"; Path={PREFIX};" in spoken.headers["set-cookie"]
        assert f'data-base="{PREFIX}"' in spoken.text, "scripts are told, too"
        left = browser.post(f"{PREFIX}/logout")
        assert left.headers["location"] == f"{PREFIX}/login"
        assert f"; Path={PREFIX};" in left.headers["set-cookie"]
        assert browser.get(f"{PREFIX}/documents").status_code == 303


def test_the_description_says_where_the_api_stands(client: httpx2.Client) -> None:
    schema = client.get(f"{PREFIX}/openapi.json").json()

    assert schema["servers"] == [{"url": PREFIX}]
    assert "/api/v1/jobs" in schema["paths"]
    assert client.get(f"{PREFIX}/livez").json() == {"alive": True}
    assert client.get(f"{PREFIX}/readyz").json() == {"ready": True}


# — mounted —


def test_a_mounted_site_opens_its_app_with_the_first_request_and_lets_go_of_it_at_the_end(
    settings: Settings,
) -> None:
    app, theirs = Retoma(settings=settings, pipelines=[double]), FastAPI()
    theirs.mount("/x", site(app))

    for _ in range(2):  # as often as somebody likes
        with hosting(theirs) as url:
            with pytest.raises(ConfigurationError, match="not open"):
                _ = app.database
            assert httpx2.get(f"{url}/x/livez").json() == {"alive": True}
            for number in range(2):
                assert httpx2.get(f"{url}/x/api/v1/jobs?limit={number + 1}").json() == {"jobs": [], "next": None}
            assert app.database
        with pytest.raises(ConfigurationError, match="not open"):
            _ = app.database


def test_an_application_that_gives_its_lifespan_opens_a_mounted_site_when_it_starts(settings: Settings) -> None:
    app = Retoma(settings=settings, pipelines=[double])
    inner = site(app)
    theirs = FastAPI(lifespan=inner.router.lifespan_context)
    theirs.mount("/x", inner)

    with hosting(theirs) as url:
        assert httpx2.get(f"{url}/x/api/v1/jobs").status_code == 200
        assert app._openings == 1
    with pytest.raises(ConfigurationError, match="not open"):
        _ = app.database


def test_two_sites_beside_each_other_have_each_their_own_app(settings: Settings, empty_database_url: str) -> None:
    other = Settings.load(database_url=empty_database_url)
    migrate.upgrade(empty_database_url, other)
    theirs = FastAPI()
    theirs.mount("/a", site(Retoma(settings=settings, pipelines=[double])))
    theirs.mount("/b", site(Retoma(settings=other, pipelines=[double])))

    with hosting(theirs) as url:
        httpx2.post(f"{url}/a/api/v1/jobs", json={"pipeline": "double", "input": 1})
        there = [len(httpx2.get(f"{url}/{name}/api/v1/jobs").json()["jobs"]) for name in "ab"]

    assert there == [1, 0]


def test_a_mounted_site_that_cannot_open_says_why_and_opens_as_soon_as_it_can(empty_database_url: str) -> None:
    settings = Settings.load(database_url=empty_database_url)
    theirs = FastAPI()
    theirs.mount("/x", site(Retoma(settings=settings, pipelines=[double])))

    with hosting(theirs) as url:
        refused = httpx2.get(f"{url}/x/api/v1/jobs")
        page = httpx2.get(f"{url}/x/login", headers=HTML)
        alive = httpx2.get(f"{url}/x/livez")
        migrate.upgrade(empty_database_url, settings)
        opened = httpx2.get(f"{url}/x/api/v1/jobs")

    assert code(refused) == (503, "schema_mismatch")
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert alive.json() == {"alive": True}
    assert 'href="/x/static/' in page.text
    assert opened.status_code == 200


# — behind a proxy —


@pytest.mark.parametrize(
    "given",
    [
        "x",
        "//evil.example",
        "/x/../y",
        "/..",
        "/x?y",
        "/x#y",
        "/x y",
        "https://evil.example",
        "/",
        "",
        "/x,/y",
        "/x\\y",
    ],
)
def test_a_prefix_that_is_none_is_not_believed(still_house: House, given: str) -> None:
    answer = still_house.client.get("/login", headers=HTML | {"X-Forwarded-Prefix": given})

    assert answer.status_code == 200
    assert 'data-base=""' in answer.text


def test_a_proxy_that_tells_a_prefix_is_somebody_who_speaks_for_others(house_of_one: House) -> None:
    assert house_of_one.get("/jobs").status_code == 200
    assert code(house_of_one.get("/jobs", headers={"X-Forwarded-Prefix": "/x"})) == (401, "auth_missing")


def test_a_prefix_is_believed_only_of_those_that_may_say_it(open_house: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.7")
    house = open_house()

    assert 'data-base=""' in house.client.get("/login", headers=HTML | {"X-Forwarded-Prefix": "/x"}).text


@pytest.fixture
def house_of_one(open_house: Open) -> House:
    return open_house()
