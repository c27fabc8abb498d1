"""Every page of the console under three prefixes, and behind a proxy that takes the prefix off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import psycopg
import pytest
from fastapi.routing import iter_route_contexts

from retoma import Retoma, Settings
from retoma.web import site
from retoma.web.console.batch import TABS

from .archive import HTML
from .conftest import PIPELINES, House
from .machine_stage import furnish
from .prefixed import prefixed
from .test_audit_routes import Stage
from .test_prefix import LED, OPENED

pytestmark = pytest.mark.timeout(600)

PLACES = [
    ("root", ""),
    ("mounted", "/retoma"),
    ("mounted", "/x/retoma"),
    ("root_path", "/x/retoma"),
    ("forwarded", "/retoma"),
    ("forwarded", "/x/retoma"),
]


@pytest.fixture(params=PLACES, ids=[f"{way}{prefix.replace('/', '-')}" for way, prefix in PLACES])
def house(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Iterator[House]:
    way, prefix = request.param
    with (
        prefixed(way, settings, tmp_path / "blobs", prefix=prefix, pipelines=PIPELINES) as found,
        httpx2.Client(base_url=found.url, headers=OPENED, timeout=60) as client,
    ):
        yield House(found.url, client, found.settings)
    assert found.strays == [], "somebody was led out of the prefix"


def addresses(house: House, psql: psycopg.Connection) -> list[str]:
    """Every page of the console, about something that is there; a batch with each of its tabs."""
    ids, stage = furnish(house, psql), Stage(house)
    psql.execute("insert into retoma.webhook_endpoints (id, url, kinds, secret) values ('e', 'https://x', '{}', 's')")
    psql.execute("insert into retoma.webhook_deliveries (id, endpoint_id, kind, body) values ('m', 'e', 'x.y', '{}')")
    stage.failed()
    stage.alert()
    known = {"batches": ids["batch"], "calls": ids["call"], "jobs": ids["ran"], "review": stage.review()}
    known |= {"deliveries": "m", "queues": "double"}  # type: ignore[dict-item]
    made = []
    for path in sorted(pages()):
        noun = re.search(r"/([a-z-]+)/\{", path)
        filled = re.sub(r"\{[^}]+\}", str(known[noun[1]]) if noun else "", path)
        made.append(filled + {"/at": "?place=0", "/search": "?q=petições"}.get(filled[filled.rindex("/") :], ""))
        if path == "/console/batches/{id}":
            made += [f"{filled}?tab={tab}" for tab in TABS]
    return made


def pages() -> set[str]:
    app = Retoma(settings=Settings.load(database_url="postgresql://nobody/nowhere"), pipelines=PIPELINES)
    found = iter_route_contexts(site(app).routes)
    return {
        each.path
        for each in found
        if each.path.startswith("/console") and "GET" in (getattr(each, "methods", None) or ())
    }


def test_every_link_of_every_page_of_the_console_stays_under_the_prefix(house: House, psql: psycopg.Connection) -> None:
    prefix = httpx2.URL(house.url).path.rstrip("/")
    wrong: list[object] = []
    shown = 0
    for address in addresses(house, psql):
        answer = house.client.get(quote(address, safe="/?=&"), headers=HTML)
        location = answer.headers.get("location")
        if answer.status_code not in (200, 303, 307):
            wrong.append((address, answer.status_code))
        if location is not None and not location.startswith(f"{prefix}/"):
            wrong.append((address, location))
        if not answer.headers.get("content-type", "").startswith("text/html") or not answer.text:
            continue
        shown += 1
        for kind, place in LED.findall(answer.text):
            outside = place and not place.startswith(("#", f"{prefix}/", "?"))
            if outside or place.startswith("//") or (prefix and place.startswith(f"{prefix}{prefix}")):
                wrong.append((address, kind, place))
        if f'data-base="{prefix}"' not in answer.text:
            wrong.append((address, "data-base"))

    assert wrong == []
    assert shown > 30
