"""Live pages: what happened is told once, silence of the server is told as that, and nothing is lost meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
import uvicorn
from fastapi import APIRouter, Request, Response
from jinja2 import BaseLoader, ChoiceLoader, DictLoader
from playwright.sync_api import expect

from retoma import Retoma, Settings
from retoma.testing import drain
from retoma.web import site
from retoma.web.http.auth import needs
from retoma.web.pages import PageRoute, page, render
from retoma.web.server.server import listen, url_of

from ..web.archive import apart  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import wait  # noqa: TID252
from .conftest import Visit

TEMPLATE = """{% extends "base.html" %}
{% block title %}Live{% endblock %}
{% block scripts %}<script defer src="{{ static('live.js') }}"></script>{% endblock %}
{% block main %}
{{ ui.live_notice() }}
<div data-live="{{ url('/api/v1/batches/1/events') }}" data-live-status="{{ url('/api/v1/batches/1/progress') }}"
 data-live-events="snapshot progress items state" data-live-silence="2" data-live-poll="1" data-live-cursor="0"></div>
{% block figures %}
<p id="figures" data-url="{{ url('/live') }}" data-refresh-on="items state">{{ done }}</p>
{% endblock %}
{% endblock %}"""

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/live")
@needs("read")
async def show_live(request: Request) -> Response:
    app: Retoma = request.state.retoma.app
    return page(request, "live.html", done=(await app.batches.progress(1)).completed)


@pytest.fixture(autouse=True)
def one_more_page() -> Iterator[None]:
    environment = render._environment()
    usual = environment.loader
    assert isinstance(usual, BaseLoader)
    environment.loader = ChoiceLoader([usual, DictLoader({"live.html": TEMPLATE})])
    yield
    environment.loader = usual


@contextmanager
def hosted(settings: Settings, port: int = 0) -> Iterator[str]:
    """A server with the page, at a port; its streams end with it."""
    made = site(Retoma(settings=settings, pipelines=[wait]))
    made.include_router(router)
    listening = listen("127.0.0.1", port)
    server = uvicorn.Server(
        uvicorn.Config(made, lifespan="on", log_config=None, ws="none", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join(20)


def advance(settings: Settings, job: int | None = None) -> None:
    """Make the batch, or bring one of its jobs to its end."""

    async def act() -> None:
        app = Retoma(settings=settings, pipelines=[wait])
        async with app:
            if job is None:
                await app.batch(wait, ["a", "b", "c"], name="three")
            else:
                await app.jobs.signal(job, "answer", "go on")
            await drain(app)

    apart(lambda: asyncio.run(act()))


def test_a_server_that_goes_away_is_told_as_silence_and_nothing_is_lost(
    settings: Settings, visit: Visit, psql: psycopg.Connection
) -> None:
    advance(settings)
    page = visit("about:blank")
    page.add_init_script(
        "window.heard = []; document.addEventListener('retoma:event', "
        "each => each.detail.id && window.heard.push([Number(each.detail.id), each.detail.name]))"
    )
    notice = page.locator("#live-notice")
    with hosted(settings) as url:
        page.goto(f"{url}/live")
        expect(notice).to_be_hidden()
        advance(settings, 1)
        expect(page.locator("#figures")).to_have_text("1")

    expect(notice).to_be_visible()
    expect(notice).to_contain_text("Sem notícias do servidor há")
    expect(notice).not_to_contain_text("trava")
    advance(settings, 2)
    with hosted(settings, int(url.rpartition(":")[2])):
        expect(page.locator("#figures")).to_have_text("2")
        expect(notice).to_be_hidden()
        advance(settings, 3)
        expect(page.locator("#figures")).to_have_text("3")

    heard = [seq for seq, name in page.evaluate("heard") if name in ("items", "state")]
    told = [seq for (seq,) in psql.execute("select seq from retoma.events where batch_id = 1 order by seq").fetchall()]
    assert heard == told


def test_while_the_stream_is_down_the_page_asks_for_the_status_and_only_sees_changes(
    settings: Settings, visit: Visit
) -> None:
    advance(settings)
    page = visit("about:blank")
    page.route("**/events*", lambda route: route.abort())
    statuses: list[int] = []
    page.on("response", lambda answer: statuses.append(answer.status) if "/progress" in answer.url else None)
    with hosted(settings) as url:
        page.goto(f"{url}/live")
        notice = page.locator("#live-notice")
        expect(notice).to_contain_text("Sem notícias do servidor há")
        expect(notice).to_contain_text("Atualizando a cada 1 s enquanto a conexão ao vivo não volta.")
        advance(settings, 1)
        expect(page.locator("#figures")).to_have_text("1")
        page.unroute("**/events*")
        page.get_by_role("button", name="Reconectar agora").click()
        expect(notice).to_be_hidden()

    assert set(statuses) <= {200, 304}
