"""Every look there is, over the whole site: content is shown with its scope only, and is in the audit when it is; what
is not there is not told apart from what is another's.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from fastapi.routing import iter_route_contexts

from retoma import Retoma
from retoma.pipelines import ALL, BOOKS, CLASSIFICATION, DOCUMENTS, EMBEDDINGS
from retoma.providers import Classifier
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical
from retoma.testing import age, drain
from retoma.web import site

from .archive import HTML, providers
from .conftest import PIPELINES, House, Open
from .test_audit_routes import API, DESK, WELL, Stage, changing, request_for

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "books"))

from sample_books import CountingEditor

from retoma.pipelines.books.ports import Editor

pytestmark = pytest.mark.timeout(600)

MARK = "jabuticaba"
TEXT = (
    f"Ata da assembleia geral sobre {MARK}. Presentes os diretores. Nada mais havendo a tratar, encerrou-se. "
    f"Qualquer das partes pode plantar {MARK} com aviso de trinta dias."
)
BOOK = "\n\n".join(f"## Capítulo {n}\n\n" + " ".join(f"{MARK}{n}x{each}" for each in range(400)) for n in (1, 2))
OPEN = {
    "/livez",
    "/readyz",
    "/openapi.json",
    "/docs",
    "/",
    "/login",
    "/login/oidc",
    "/login/oidc/callback",
    "/api/v1",
    "/api/v1/",
    "/static/{digest}/{name:path}",
}
"""Nobody needs a key for these."""
STREAMS = {"/execucoes/{id}/eventos", "/api/progress/{id}"}
"""These go on for as long as they are listened to; test_stream.py and its neighbours listen."""
WHERE = "organisation=o&site=s"
QUERIES = {
    "/documents/search": f"q={MARK}", "/documents/status": "ids={document}",
    "/api/v1/embeddings": WHERE, "/api/v1/embeddings/search": f"{WHERE}&q={MARK}",
    "/api/v1/embeddings/sources/{source_type}/{source_id:path}": WHERE,
    "/api/v1/prices/history": "provider=p&model=m", "/console/calls/{id:int}": "body=1",
    "/api/v1/events": "batch={batch}", "/api/v1/jobs/{id}/checkpoints": "values=true",
    "/api/v1/search": f"q={MARK}",
}  # fmt: skip
NOBODY = {"document": "00000000-0000-4000-8000-000000000000", "book": "nobody", "worker": "nobody"}
NAMED = ("number", "word", "file", "format", "formato", "source_type", "source_id")
"""Parts of an address that are no ids."""


class Full:
    """A house with something of every kind in it, and the ids of that."""

    def __init__(self, house: House, given: dict[type, object], psql: psycopg.Connection, ids: dict[str, str]) -> None:
        self.house, self.given, self.ids, self._psql = house, given, ids, psql
        self.nobodys = {name: id if name in NAMED else NOBODY.get(name, "999999") for name, id in ids.items()}

    def app(self) -> Retoma:
        return Retoma(settings=self.house.settings, pipelines=PIPELINES, extensions=ALL, providers=self.given)

    def newest(self) -> tuple[int, str] | None:
        """The newest look in the audit, with its route."""
        looks = "select id, route from retoma.audit where outcome = 'looked' order by id desc limit 1"
        return self._psql.execute(looks).fetchone()

    def looks(self) -> Iterator[str]:
        """Every look that needs a key, by the pattern of its path."""
        seen = set(OPEN)
        for each in iter_route_contexts(site(self.app()).routes):
            streams = each.path.removeprefix(DESK) in STREAMS
            if "GET" in (getattr(each, "methods", None) or ()) and each.path not in seen and not streams:
                seen.add(each.path)
                yield each.path

    def address(self, path: str, ids: dict[str, str]) -> str:
        """*path* about what *ids* name."""
        filled = re.sub(r"{(\w+)(?::\w+)?}", lambda found: ids[_kind(path, found[1])], path)
        query = QUERIES.get(path, "").format(**ids)
        return f"{filled}?{query}" if query else filled


def _kind(path: str, name: str) -> str:
    """What the parameter *name* of *path* names."""
    if name == "format" and "/download/" in path:
        return "formato"
    if name == "name":
        return "queue" if "/queues/" in path else "schedule"
    if name != "id":
        return name
    for noun, kind in KINDS.items():
        if f"/{noun}/" in path:
            return kind
    raise AssertionError(f"say in KINDS what the id of {path} is")


KINDS = {
    "documents": "document", "books": "book", "result": "book", "progress": "book", "itens": "quote",
    "listas": "list", "batch-status": "list", "resume-batch": "list", "recover-quote": "quote",
    "quotes": "quote", "batch-quotes": "list",
    "lotes": "lot", "projetos": "lot", "codigos": "code", "execucoes": "execution", "prompts": "prompt",
    "batches": "batch", "jobs": "job", "calls": "call", "workers": "worker", "operations": "operation",
    "views": "view", "reviews": "review", "review": "review",
    "deliveries": "delivery", "webhooks": "webhook", "users": "user", "keys": "key", "sessions": "session",
    "alerts": "alert", "exemplos": "example", "price-bank": "vehicle", "banco": "vehicle",
}  # fmt: skip


async def done(app: Retoma) -> None:
    """All work, also what a busy machine has to try again later."""
    async with app:
        await drain(app)
        while await app.jobs.find(state="queued"):
            await age(app, minutes=60)
            await drain(app)


@pytest.fixture
def full(open_house: Open, tmp_path: Path, psql: psycopg.Connection) -> Full:
    given: dict[type, object] = {
        **providers(tmp_path / "blobs"),
        Classifier: LocalClassifier(Lexical()),
        Editor: CountingEditor(),
    }
    house = open_house(pipelines=PIPELINES, extensions=ALL, providers=given, webhook_private="on")
    stage = Stage(house)
    job = {"pipeline": "stumble", "input": MARK}
    batch = stage.post(f"{API}/batches", json={"pipeline": "stumble", "name": "x", "jobs": [{"input": MARK}]})["id"]
    said = {"organisation": "o", "site": "s", "source_type": "page", "source_id": "1", "content": TEXT}
    stage.post(f"{API}/embeddings", json={"texts": [said]})
    document = stage.post("/documents", files={"files": ("a.txt", TEXT.encode())})["documents"][0]["id"]
    prompt = stage.post(f"{DESK}/prompts", json={"nome": "p", "conteudo": f"{MARK}\n\n- ata: reunião\n- outro: x\n"})
    lot = stage.post(f"{DESK}/projetos", json={"nome": "l", "prompt_id": prompt["id"]})["id"]
    stage.post(f"{DESK}/lotes/{lot}/upload", files={"arquivos": ("a.txt", TEXT.encode())})
    execution = stage.post(f"{DESK}/projetos/{lot}/executar")["execucao_id"]
    code = house.client.get(f"{DESK}/projetos/{lot}/codigos").json()[0]["id"]
    book = stage.post(f"{API}/books", files={"file": ("livro.md", BOOK.encode())})["session_id"]
    stage.post(f"{API}/books/{book}/feedback", json={"kind": "error", "message": MARK})
    failed = stage.post(f"{API}/jobs", json=job)["id"]
    extensions = [DOCUMENTS, EMBEDDINGS, CLASSIFICATION, BOOKS]
    asyncio.run(done(Retoma(settings=house.settings, pipelines=PIPELINES, extensions=extensions, providers=given)))
    left = "select pipeline, state, error from retoma.jobs where state <> 'completed' and pipeline <> 'stumble'"
    assert psql.execute(left).fetchall() == [], "there is something of every kind"
    quote, source, listed = quoted(stage, psql)
    asked = {"action": "cancel", "filter": {"key_prefix": "nobody"}}
    operation = stage.post(f"{API}/operations", json=asked)["id"]
    psql.execute(
        "insert into retoma.calls (key, provider, model, request, job_id) values ('k', 'p', 'm', %s, %s)",
        [f'{{"prompt": "{MARK}"}}', failed],
    )
    house.ask(lambda app: app.schedules.put(app.registry.pipeline("stumble"), MARK, name="tonight", cron="0 4 * * *"))
    house.ask(lambda app: app.queues.weigh("double", 1))
    [[result]] = psql.execute("select id from retoma.classifications limit 1").fetchall()
    [[call]] = psql.execute("select max(id) from retoma.calls").fetchall()
    [[worker]] = psql.execute("select id from retoma.workers limit 1").fetchall()
    review = stage.review()
    ids = {
        "review": review, "document": document, "prompt": prompt["id"], "lot": lot, "execution": execution,
        "code": code, "book": book,
        "batch": batch, "job": failed, "quote": quote, "source": source, "list": listed, "result": result,
        "call": call, "worker": worker, "number": "1", "file": "1", "format": "markdown", "formato": "csv",
        "source_type": "page", "source_id": "1", "operation": operation, "view": stage.view(), "queue": "double",
        "schedule": "tonight", "alert": stage.alert(), "vehicle": stage.vehicle(), "update": stage.bank_update(),
        "word": "aceitar", **hooked(psql),
    }  # fmt: skip
    return Full(house, given, psql, {name: str(id) for name, id in ids.items()})


def hooked(psql: psycopg.Connection) -> dict[str, str]:
    """A webhook and a message of it; and what is only changed, never looked at by its id."""
    psql.execute("insert into retoma.webhook_endpoints (id, url, kinds, secret) values ('e', 'https://x', '{}', 's')")
    psql.execute(
        "insert into retoma.webhook_deliveries (id, endpoint_id, kind, body) values ('m', 'e', 'webhook.test', '{}')"
    )
    return {"webhook": "e", "delivery": "m", "user": "u", "key": "k", "session": "s", "example": "1"}


def quoted(stage: Stage, psql: psycopg.Connection) -> tuple[int, int, int]:
    """A quote that a person has added a source to, and that failed; and a list."""

    async def made(quotes: Any) -> tuple[int, int, int]:
        id = await quotes.create(f"Mesa de {MARK}")
        psql.execute(f"update quotes.quote_requests set {WELL} where id = {id}".encode())
        await quotes.add_source(id, title=f"Mesa de {MARK}", price=Decimal(100), reason=f"{MARK} serve", by="ana")
        (source,) = await quotes.sources(id)
        listed, _ = await quotes.create_batch(f"descricao\nCadeira de {MARK}\n".encode(), name="x")
        return int(id), int(source.id), int(listed)

    found: tuple[int, int, int] = stage.quotes(made)
    psql.execute("update quotes.quote_requests set error_message = %s", [f"no price of {MARK}"])
    return found


def shows(response: httpx2.Response) -> bool:
    return MARK in response.text.lower() or MARK.encode() in response.content.lower()


def test_content_is_shown_with_its_scope_only_and_is_in_the_audit_then(full: Full) -> None:
    reader, privy = full.house.key("read", "submit"), full.house.key("read", "submit", "content:read")
    leaked, silent, shown, broken = [], [], set(), []
    for path in full.looks():
        for headers in ({}, {"Accept": "text/html"}):
            address = full.address(path, full.ids)
            without = full.house.client.get(address, headers={**reader, **headers})
            before = full.newest()
            seen = full.house.client.get(address, headers={**privy, **headers})
            after = full.newest()
            if seen.status_code >= 500 or without.status_code >= 500:
                broken.append((path, without.status_code, seen.status_code))
            if shows(without) and "q=" not in address:
                leaked.append((path, headers))
            if shows(seen) and "q=" not in address:
                shown.add(path)
            # A page at the same address as data is the same look.
            noted = after is not None and after != before and after[1] == f"GET {re.sub(r':[a-z]+}', '}', path)}"
            if shows(seen) and not headers and not noted:
                silent.append((path, after))

    assert (leaked, silent, broken) == ([], [], [])
    missing = {each for each in EXPECTED if each not in shown}
    assert missing == set(), "what these show is not content any more, or nothing is there to be shown"


EXPECTED = {
    "/documents/{id:uuid}", "/documents/{id:uuid}/chunks", "/documents/{id:uuid}/file",
    "/classificador/api/prompts/{id}", "/classificador/api/execucoes/{id}/resultados",
    "/classificador/api/execucoes/{id}/exportar/{formato}",
    "/cotacoes/itens/{id}", "/cotacoes/itens", "/cotacoes/listas/{id}",
    "/books/{id}/text/{number:path}", "/books/{id}/source", "/api/v1/books/{id}/chapters/{number:path}",
    "/api/v1/books/{id}/export/{format}", "/api/v1/books/{id}/feedback", "/api/result/{id}",
    "/console/jobs/{id}", "/console/errors", "/console/dead-letters", "/api/v1/errors",
    "/console/calls/{id:int}", "/api/v1/schedules", "/api/v1/schedules/{name}",
    "/api/v1/jobs/{id}", "/api/v1/jobs/{id}/checkpoints", "/api/v1/batches/{id}/errors", "/api/v1/batches/{id}/jobs",
    "/api/v1/calls/{id:int}", "/api/v1/overview", "/console/", "/console/batches/{id}",
    "/api/v1/embeddings/sources/{source_type}/{source_id:path}",
}  # fmt: skip
"""Looks of every product that show what is in the house."""


def test_words_of_items_are_searched_by_those_who_may_see_them(full: Full) -> None:
    reader, privy = full.house.key("read"), full.house.key("read", "content:read")
    refused, found = (
        full.house.client.get(f"/cotacoes/itens?busca={MARK}", headers={**key, "Accept": "text/html"})
        for key in (reader, privy)
    )

    assert (refused.status_code, found.status_code, shows(found)) == (403, 200, True)


def test_a_look_that_may_be_paid_for_is_not_made_by_another_site(full: Full) -> None:
    """Without a key: whoever is on this machine may ask, and a page in their browser asks for them."""
    house = full.house
    costs = {
        each.path
        for each in iter_route_contexts(site(full.app()).routes)
        if (need := vars(getattr(each.original_route, "endpoint", object)).get("need")) and need.costs
    }
    asked = {
        path: [
            told(house.client.get(full.address(path, full.ids), headers={"Sec-Fetch-Site": where}))
            for where in ("cross-site", "same-origin")
        ]
        for path in costs
    }

    assert costs >= {"/documents/search", "/api/v1/embeddings/search"}
    assert asked == {path: [(403, "cross_site_blocked"), (200, "")] for path in costs}


def test_a_question_that_shows_what_it_is_about_is_a_look(full: Full) -> None:
    key = full.house.key("read", "operate", "content:read")
    asked = full.house.client.post(f"/cotacoes/itens/{full.ids['quote']}/cancelar", headers={**key, **HTML})

    assert shows(asked)
    assert (full.newest() or (0, ""))[1] == "POST /cotacoes/itens/{id}/cancelar"


def told(response: httpx2.Response) -> tuple[int, str]:
    """Status and code."""
    is_problem = response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"] if is_problem else ""


def test_to_a_key_of_another_pipeline_what_is_there_looks_like_what_is_not(full: Full) -> None:
    other = full.house.key("read", "submit", "operate", "content:read", pipelines=("double",))
    told_apart, let_in = [], []
    for path in full.looks():
        if "{" not in path:
            continue
        theirs, nobodys = (
            told(full.house.client.get(full.address(path, ids), headers=other)) for ids in (full.ids, full.nobodys)
        )
        if theirs != nobodys:
            told_apart.append((path, theirs, nobodys))
        if theirs[0] not in {403, 404}:
            let_in.append((path, theirs))

    assert (told_apart, let_in) == ([], [])


def test_an_id_that_nobody_has_is_404_to_look_at_and_to_change(full: Full) -> None:
    # With a key: the token of this machine would open no more once the first one is made on the way.
    full.house.client.headers |= full.house.key("admin")
    asked: list[tuple[str, str, dict[str, Any]]] = [("GET", path, {}) for path in full.looks()]
    stage = Stage(full.house)
    for route in {route: None for route, _ in changing(full.app())}:
        method, _, path = route.partition(" ")
        if "{id" in path and (how := request_for(route)) is not None:
            asked.append((method, path, how[0](stage)[1]))

    wrong = []
    for method, path, options in (each for each in asked if "{id" in each[1]):
        # A page asks whether one is sure, unless that is answered already.
        sure = "?sim=1" if method == "POST" and path.endswith(ASKING) and "headers" in options else ""
        found = told(full.house.client.request(method, full.address(path, full.nobodys) + sure, **options))
        if found[0] != 404:
            wrong.append((method, path, found))

    assert wrong == []


ASKING = ("/cancelar", "/arquivar", "/desativar")
