"""Every route that changes something leaves its row in the audit: all routes of the whole site are walked."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import sys
import weakref
import zipfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi.routing import iter_route_contexts

from retoma import Retoma, Settings
from retoma.app.access.sessions import Opened
from retoma.model.alert import Finding
from retoma.pipelines import ALL, QUOTES
from retoma.pipelines.books import chapters, sessions
from retoma.pipelines.books.model import stored
from retoma.pipelines.books.ports import Chapter
from retoma.pipelines.quotes.library import Quotes
from retoma.providers import Classifier
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical
from retoma.store import alerts
from retoma.store.query import Query
from retoma.telemetry import listen
from retoma.telemetry.events import ActionAudited, Event
from retoma.web import site
from retoma.web.http.audit import nouns_of, spoken_of
from retoma.web.http.route import ApiRoute

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))
from pictures import png  # isort: skip - the pictures are those of the pipeline's own tests

from .archive import LEASE, providers
from .conftest import PIPELINES, House, Open

API, DESK = "/api/v1", "/classificador/api"
ENVIRONMENT_KEY = "d2hvZXZlciBob2xkcyB0aGlzIG1heSBkbyBhbGw5"
SAFE = {"GET", "HEAD", "OPTIONS"}
SIGNING = {"POST /login", "POST /logout"}
"""These open and end sessions, and have rows of their own: test_audit.py."""
LEASING = {
    "POST /api/v1/reviews/next", "POST /api/v1/reviews/renew", "POST /api/v1/reviews/{id}/skip",
    "POST /console/review/start", "POST /console/review/renew",
}  # fmt: skip
"""These change who looks at what for a minute; what is decided then has its rows."""
PROMPT = "Diga o tipo do documento.\n\n- ata: reunião e assembleia\n- contrato: cláusulas e partes\n"
NOTE = ("ata.txt", b"Ata da assembleia geral. Presentes os diretores. Foi aprovado por unanimidade o que segue.")

STUCK = """
update quotes.quote_requests
   set status = 'PROCESSING', started_at = now(), last_heartbeat = now() - interval '11 minutes'
 where id = %(id)s::bigint returning id
"""

Asked = tuple[str, dict[str, Any]]


def changing(app: Retoma) -> Iterator[tuple[str, Any]]:
    """Every route that is not a look, as method and path."""
    for each in iter_route_contexts(site(app).routes):
        for method in sorted(set(getattr(each, "methods", None) or ()) - SAFE):
            path = re.sub(r":\w+}", "}", each.path)
            yield f"{method} {path}", each


class Stage:
    """Makes what a route is to be asked about."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._numbers = iter(range(1, 1000))

    def post(self, path: str, **options: Any) -> Any:
        answered = self.house.client.post(path, **options)
        assert answered.status_code < 300, answered.text
        return answered.json()

    def number(self) -> int:
        return next(self._numbers)

    def alert(self) -> int:
        found = [Finding("queue_late", f"queue {self.number()}", "warning", {"queue": "q", "due": 1, "seconds": 700})]
        (opened,) = self.house.ask(lambda app: app.fetch(alerts.note(found, quiet=3600)))
        return opened.id

    def job(self, *, ended: bool = False, pipeline: str = "double") -> int:
        input = 1 if pipeline == "double" else "x"
        id = int(self.post(f"{API}/jobs", json={"pipeline": pipeline, "input": input})["id"])
        if ended:
            self.post(f"{API}/jobs/{id}/cancel")
        return id

    def failed(self, *, discarded: bool = False) -> int:
        id = self.job(ended=True)
        with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as psql:
            # Long ago, or the watchdog would tell of it meanwhile.
            long_ago = "state = 'failed', error = 'x', finished_at = now() - interval '1 day'"
            psql.execute(f"update retoma.jobs set {long_ago} where id = %s", [id])
        if discarded:
            self.post(f"{API}/jobs/{id}/discard")
        return id

    def batch(self, *, seal: bool = True, then: str | None = None) -> int:
        id = int(self.post(f"{API}/batches", json={"pipeline": "double", "name": "x"})["id"])
        self.post(f"{API}/batches/{id}/jobs", json={"jobs": [{"input": 1}]})
        if seal:
            self.post(f"{API}/batches/{id}/seal")
        if then:
            self.post(f"{API}/batches/{id}/{then}")
        return id

    def review(self, *, decided: bool = False) -> int:
        """A job that waits for a person; or one that was decided a moment ago."""
        job = self.job(pipeline="anything", ended=True)
        with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as psql:
            psql.execute("update retoma.jobs set state = 'review', output = '2' where id = %s", [job])
            made = psql.execute(
                "insert into retoma.reviews (source, item, job_id, fence, pipeline, proposal)"
                " select 'job', id::text, id, fence, pipeline, output from retoma.jobs where id = %s returning id",
                [job],
            ).fetchone()
        assert made is not None
        if decided:
            self.post(f"{API}/reviews/{made[0]}/accept")
        return int(made[0])

    def prompt(self) -> int:
        made = self.post(f"{DESK}/prompts", json={"nome": f"p{self.number()}", "conteudo": PROMPT})
        return int(made["id"])

    def project(self) -> int:
        id = int(self.post(f"{DESK}/projetos", json={"nome": f"l{self.number()}"})["id"])
        name, text = NOTE
        sent = {"arquivos": (name, text + str(self.number()).encode())}
        self.post(f"{DESK}/lotes/{id}/upload", files=sent)
        return id

    def execution(self, then: str | None = None) -> int:
        id = int(self.post(f"{DESK}/projetos/{self.project()}/executar")["execucao_id"])
        if then:
            self.post(f"{DESK}/execucoes/{id}/{then}")
        return id

    def example(self) -> int:
        id = self.project()
        self.post(f"{DESK}/projetos/{id}/exemplos", json={"exemplos": [{"documento": NOTE[0], "categoria": "ata"}]})
        return int(self.house.client.get(f"{DESK}/projetos/{id}/exemplos").json()[0]["id"])

    def teaching(self) -> tuple[str, Any]:
        id = self.execution()
        [each] = self.house.client.get(f"{DESK}/execucoes/{id}/resultados").json()
        return f"/classificador/execucoes/{id}/documentos/{each['id']}/ensinar", form(categoria="ata")

    def code(self) -> int:
        found = self.house.client.get(f"{DESK}/projetos/{self.project()}/codigos").json()
        return int(found[0]["id"])

    def document(self) -> str:
        sent = {"files": ("a.txt", f"{LEASE} {self.number()}".encode())}
        return str(self.post("/documents", files=sent)["documents"][0]["id"])

    def book(self, *, doubtful: bool = False, paused: bool = False) -> str:
        """A book that waits for a worker; or for a person, as after its chapters were found."""
        said = {"title": "x", "text": f"{LEASE} {self.number()}"}
        led = self.house.client.post("/books", data=said, headers=PAGE["headers"]).headers["location"]
        id = led.partition("?")[0].rpartition("/")[2]
        if doubtful or paused:
            self.house.client.post(f"/books/{id}/pause", headers=PAGE["headers"])
        if doubtful:
            self._found(id)
        return id

    def _found(self, id: str) -> None:
        with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as connection:
            for place in (1, 2):
                put = chapters.put(id, stored(place, Chapter(number=str(place), title="t", text=LEASE)))
                connection.execute(put.sql, put.params)
            found = sessions.planned(id, detector="x", left_out=[], doubts=["?"], pages=1, reader="x")
            connection.execute(found.sql, found.params)

    def feedback(self) -> str:
        id = self.book()
        said = self.post(f"{API}/books/{id}/feedback", json={"kind": "praise", "message": "Bom."})
        return f"{API}/books/{id}/feedback/{said['id']}"

    def stuck_quote(self) -> int:
        """A quote that its worker has left."""

        async def made() -> int:
            async with Retoma(settings=self.house.settings, extensions=[QUOTES]) as app:
                id = await Quotes(app).create("Mesa")
                await app.fetch(Query(STUCK, int, {"id": id}))
                return id

        return asyncio.run(made())

    def quote_batch(self) -> int:
        """A batch of quotes that rests."""

        async def made() -> int:
            async with Retoma(settings=self.house.settings, extensions=[QUOTES]) as app:
                id, _ = await Quotes(app).create_batch(f"descricao\nMesa {self.number()}\n".encode(), name="Lote")
                await app.batches.pause(id)
                return int(id)

        return asyncio.run(made())

    def quotes(self, act: Callable[[Quotes], Any]) -> Any:
        """Something of the library of quotes."""

        async def acted() -> Any:
            async with Retoma(settings=self.house.settings, extensions=[QUOTES]) as app:
                return await act(Quotes(app))

        return asyncio.run(acted())

    def quote(self, change: str = "") -> int:
        """A quote; *change* is what a worker has made of it."""
        id = int(self.quotes(lambda quotes: quotes.create(f"Mesa {self.number()}")))
        if change:
            with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as psql:
                psql.execute(f"update quotes.quote_requests set {change} where id = {id}".encode())
        return id

    def source(self, *, counts: bool = True) -> str:
        """A source of a quote, as its path."""
        id = self.quote(WELL)

        async def made(quotes: Quotes) -> str:
            given: dict[str, Any] = {"reason": "pesquisa por telefone", "by": "ana"}
            await quotes.add_source(id, title="Mesa", price=Decimal(100), **given)
            (source,) = await quotes.sources(id)
            if not counts:
                await quotes.drop_source(id, source.id, **given)
            return f"/cotacoes/itens/{id}/fontes/{source.id}"

        return str(self.quotes(made))

    def page_without_picture(self, path: str) -> str:
        """*path* about a source whose page was kept, and whose picture was not taken."""
        id, source = map(int, self.source().removeprefix("/cotacoes/itens/").split("/fontes/"))
        with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as psql:
            psql.execute("update quotes.quote_sources set evidence_blob = 'x', evidence_kind = 'text/html'")
        return path.format(id, source)

    def list(self, *, paused: bool = False) -> int:
        async def made(quotes: Quotes) -> int:
            id, _ = await quotes.create_batch(f"descricao\nMesa {self.number()}\n".encode(), name="x")
            if paused:
                await quotes.app.batches.pause(id)
            return int(id)

        return int(self.quotes(made))

    def vehicle(self) -> int:
        """A vehicle of the price bank."""
        return self._made(
            "insert into quotes.price_bank (codigo_fipe, ano, marca, modelo, vehicle_type, words, price) "
            "values (%s, 2012, 'Fiat', 'Uno', 'cars', '{fiat,uno}', 20000) returning id",
            f"001004-{self.number()}",
        )

    def bank_update(self) -> int:
        """A new price of a vehicle, which waits for a person."""
        return self._made(
            "insert into quotes.bank_updates (vehicle_id, mode, state, price_before, price_after, detail, by) "
            "values (%s, 'MARKET', 'WAITING', 20000, 30000, '{}', 'ana') returning id",
            self.vehicle(),
        )

    def _made(self, sql: str, *params: object) -> int:
        with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as psql:
            [id] = psql.execute(sql.encode(), params).fetchone() or (0,)
        return int(id)

    def done_list(self) -> int:
        """A batch of quotes whose only quote is priced."""
        id = self.list()
        with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as psql:
            psql.execute(f"update quotes.quote_requests set {DONE} where batch_job_id = {id}".encode())
        return id

    def operation(self) -> int:
        """One that nobody carries out: somebody else has its lock for as long as this stage is there."""
        holder = psycopg.connect(str(self.house.settings.database_url))
        weakref.finalize(self, holder.close)
        begun = (
            "insert into retoma.operations (kind, asked, filter, upto, wanted) values ('cancel', '{}', '{}', 1, 1) "
            "returning id"
        )
        [id] = holder.execute(begun).fetchone() or (0,)
        holder.execute("select pg_advisory_lock(736803, %s::integer)", [id])
        holder.commit()
        return int(id)

    def view(self) -> int:
        asked = {"name": f"v{self.number()}", "page": "errors", "query": ""}
        return int(self.post(f"{API}/views", json=asked)["id"])

    def worker(self) -> str:
        """The label of a worker that runs."""
        label = f"w{self.number()}"
        with psycopg.connect(str(self.house.settings.database_url), autocommit=True) as psql:
            psql.execute(
                "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds, "
                "lease_expires_at) values (%s, 'h', 1, '0', '{q}', '{p}', 1, 60, now() + interval '1 hour')",
                [label],
            )
        return label

    def limit(self) -> str:
        name = f"l{self.number()}/m"
        self.house.client.put(f"{API}/limits/{name}", json={"requests": 5})
        return name

    def key(self) -> str:
        return str(self.post(f"{API}/keys", json={"name": "x", "scopes": ["read"]})["id"])

    def user(self) -> str:
        given = {"name": f"u{self.number()}", "role": "reader", "password": "three words are enough"}
        return str(self.post(f"{API}/users", json=given)["id"])

    def session(self) -> str:
        made = self.house.ask(lambda app: app.sessions.open(Opened("environment", secret=ENVIRONMENT_KEY)))
        return str(made[1])

    def webhook(self) -> str:
        return str(self.post(f"{API}/webhooks", json={"url": "http://127.0.0.1:9/in"})["id"])

    def delivery(self) -> str:
        return str(self.post(f"{API}/webhooks/{self.webhook()}/test")["id"])

    def schedule(self) -> str:
        name = f"s{self.number()}"
        self.house.ask(
            lambda app: app.schedules.put(app.registry.pipeline("double"), 1, name=name, cron="0 4 * * *"),
        )
        return name


def form(**fields: str) -> dict[str, Any]:
    return {"data": fields, "headers": {"Accept": "text/html"}}


def parts(**fields: str) -> dict[str, Any]:
    """A form in parts, as one with a file is sent."""
    return {"files": {name: (None, value) for name, value in fields.items()}, "headers": {"Accept": "text/html"}}


def body(**fields: Any) -> dict[str, Any]:
    return {"json": fields}


PAGE: dict[str, Any] = {"headers": {"Accept": "text/html"}}
TEXT = {"organisation": "o", "site": "s", "source_type": "page", "source_id": "1", "content": "Some text to embed."}
MORE = [{"input": 2}]
WELL = "status = 'AWAITING_REVIEW', completed_at = now()"
DONE = "status = 'DONE', completed_at = now()"
LOST = "status = 'PROCESSING', last_heartbeat = now() - interval '11 minutes', started_at = now()"
FAILED = "status = 'ERROR', completed_at = now()"
LIST = {"arquivo": ("lista.csv", b"codigo;descricao\n1;Mesa\n")}
FILE = {"files": {"arquivo": NOTE}}

REQUESTS: dict[str, Callable[[Stage], Asked]] = {
    "POST /api/v1/keys": lambda _: (f"{API}/keys", {"json": {"name": "x", "scopes": ["read"]}}),
    "POST /api/v1/keys/{id}/rotate": lambda s: (f"{API}/keys/{s.key()}/rotate", {}),
    "POST /api/v1/keys/{id}/revoke": lambda s: (f"{API}/keys/{s.key()}/revoke", {}),
    "POST /api/v1/users": lambda s: (
        f"{API}/users",
        {"json": {"name": f"a{s.number()}", "role": "reader", "password": "three words are enough"}},
    ),
    "POST /api/v1/users/{id}/role": lambda s: (f"{API}/users/{s.user()}/role", {"json": {"role": "admin"}}),
    "POST /api/v1/users/{id}/password": lambda s: (
        f"{API}/users/{s.user()}/password",
        {"json": {"password": "other words are enough"}},
    ),
    "POST /api/v1/users/{id}/lock": lambda s: (f"{API}/users/{s.user()}/lock", {}),
    "POST /api/v1/users/{id}/unlock": lambda s: (f"{API}/users/{s.user()}/unlock", {}),
    "DELETE /api/v1/users/{id}": lambda s: (f"{API}/users/{s.user()}", {}),
    "POST /api/v1/sessions/{id}/end": lambda s: (f"{API}/sessions/{s.session()}/end", {}),
    "POST /api/v1/webhooks": lambda _: (f"{API}/webhooks", {"json": {"url": "http://127.0.0.1:9/in"}}),
    "POST /api/v1/webhooks/{id}/rotate": lambda s: (f"{API}/webhooks/{s.webhook()}/rotate", {}),
    "POST /api/v1/webhooks/{id}/test": lambda s: (f"{API}/webhooks/{s.webhook()}/test", {}),
    "POST /api/v1/webhooks/{id}/enable": lambda s: (f"{API}/webhooks/{s.webhook()}/enable", {}),
    "POST /api/v1/webhooks/{id}/disable": lambda s: (f"{API}/webhooks/{s.webhook()}/disable", {}),
    "DELETE /api/v1/webhooks/{id}": lambda s: (f"{API}/webhooks/{s.webhook()}", {}),
    "POST /api/v1/deliveries/{id}/replay": lambda s: (f"{API}/deliveries/{s.delivery()}/replay", {}),
    "POST /console/access/users": lambda s: (
        "/console/access/users",
        form(name=f"b{s.number()}", role="reader", password="three words are enough"),
    ),
    "POST /console/access/users/{id}/role": lambda s: (f"/console/access/users/{s.user()}/role", form(role="admin")),
    "POST /console/access/users/{id}/password": lambda s: (
        f"/console/access/users/{s.user()}/password",
        form(password="other words are enough"),
    ),
    "POST /console/access/users/{id}/lock": lambda s: (f"/console/access/users/{s.user()}/lock", PAGE),
    "POST /console/access/users/{id}/unlock": lambda s: (f"/console/access/users/{s.user()}/unlock", PAGE),
    "POST /console/access/users/{id}/remove": lambda s: (f"/console/access/users/{s.user()}/remove", PAGE),
    "POST /console/access/keys": lambda _: ("/console/access/keys", form(name="x", **{"scope:read": "on"})),
    "POST /console/access/keys/{id}/rotate": lambda s: (f"/console/access/keys/{s.key()}/rotate", PAGE),
    "POST /console/access/keys/{id}/revoke": lambda s: (f"/console/access/keys/{s.key()}/revoke", PAGE),
    "POST /console/access/sessions/{id}/end": lambda s: (f"/console/access/sessions/{s.session()}/end", PAGE),
    "POST /console/webhooks": lambda _: (
        "/console/webhooks",
        form(url="http://127.0.0.1:9/in", **{"kind:batch.failed": "on"}),
    ),
    "POST /console/webhooks/{id}/rotate": lambda s: (f"/console/webhooks/{s.webhook()}/rotate", PAGE),
    "POST /console/webhooks/{id}/test": lambda s: (f"/console/webhooks/{s.webhook()}/test", PAGE),
    "POST /console/webhooks/{id}/enable": lambda s: (f"/console/webhooks/{s.webhook()}/enable", PAGE),
    "POST /console/webhooks/{id}/disable": lambda s: (f"/console/webhooks/{s.webhook()}/disable", PAGE),
    "POST /console/webhooks/{id}/remove": lambda s: (f"/console/webhooks/{s.webhook()}/remove", PAGE),
    "POST /console/webhooks/deliveries/{id}/replay": lambda s: (
        f"/console/webhooks/deliveries/{s.delivery()}/replay",
        PAGE,
    ),
    "POST /console/new": lambda s: ("/console/new", parts(pipeline="double", input="21", name=f"n{s.number()}")),
    "POST /console/batches/{id}/pilot": lambda s: (f"/console/batches/{s.batch()}/pilot", form(do="cancel")),
    "POST /api/v1/alerts/{id}/acknowledge": lambda s: (f"{API}/alerts/{s.alert()}/acknowledge", {}),
    "POST /console/alerts/{id}/acknowledge": lambda s: (f"/console/alerts/{s.alert()}/acknowledge", form(note="I do")),
    "POST /books": lambda s: ("/books", form(text=f"{LEASE} {s.number()}")),
    "POST /books/{id}/resume": lambda s: (f"/books/{s.book(paused=True)}/resume", PAGE),
    "POST /books/{id}/pause": lambda s: (f"/books/{s.book()}/pause", PAGE),
    "POST /books/{id}/approve": lambda s: (f"/books/{s.book(doubtful=True)}/approve", PAGE),
    "POST /books/{id}/review": lambda s: (f"/books/{s.book(doubtful=True)}/review", form(do="merge", number="2")),
    "POST /books/{id}/feedback": lambda s: (f"/books/{s.book()}/feedback", form(kind="praise", message="Bom.")),
    "POST /documents": lambda _: ("/documents", {"files": {"files": ("b.txt", f"{LEASE} b".encode())}}),
    "POST /documents/{id}/reprocess": lambda s: (f"/documents/{s.document()}/reprocess", {}),
    "DELETE /documents/{id}": lambda s: (f"/documents/{s.document()}", {}),
    "POST /classificador/lotes": lambda _: ("/classificador/lotes", form(name="Lote")),
    "POST /classificador/lotes/{id}/arquivos": lambda s: (
        f"/classificador/lotes/{s.project()}/arquivos",
        {"files": {"arquivos": ("c.txt", NOTE[1] + b" c")}, **PAGE},
    ),
    "POST /classificador/lotes/{id}/executar": lambda s: (f"/classificador/lotes/{s.project()}/executar", PAGE),
    "POST /classificador/lotes/{id}/arquivar": lambda s: (f"/classificador/lotes/{s.project()}/arquivar?sim=1", PAGE),
    "POST /classificador/execucoes/{id}/retomar": lambda s: (
        f"/classificador/execucoes/{s.execution('pausar')}/retomar",
        PAGE,
    ),
    "POST /classificador/execucoes/{id}/reprocessar-erros": lambda s: (
        f"/classificador/execucoes/{s.execution()}/reprocessar-erros",
        PAGE,
    ),
    "POST /classificador/execucoes/{id}/refinar": lambda s: (
        f"/classificador/execucoes/{s.execution('cancelar')}/refinar",
        PAGE,
    ),
    "POST /classificador/execucoes/{id}/replanejar": lambda s: (
        f"/classificador/execucoes/{s.execution()}/replanejar",
        form(prompt=str(s.prompt())),
    ),
    "POST /classificador/execucoes/{id}/documentos/{result}/ensinar": lambda s: s.teaching(),
    "POST /classificador/execucoes/{id}/pausar": lambda s: (f"/classificador/execucoes/{s.execution()}/pausar", PAGE),
    "POST /classificador/execucoes/{id}/cancelar": lambda s: (
        f"/classificador/execucoes/{s.execution()}/cancelar?sim=1",
        PAGE,
    ),
    "POST /classificador/prompts": lambda _: ("/classificador/prompts", form(name="q", content=PROMPT)),
    "POST /classificador/prompts/{id}": lambda s: (
        f"/classificador/prompts/{s.prompt()}",
        form(name="r", content=PROMPT),
    ),
    "POST /classificador/prompts/{id}/desativar": lambda s: (
        f"/classificador/prompts/{s.prompt()}/desativar?sim=1",
        PAGE,
    ),
    "POST /classificador/teste": lambda _: ("/classificador/teste", {**FILE, **PAGE}),
    "POST /cotacoes/itens": lambda _: ("/cotacoes/itens", form(text="Mesa de escritório")),
    "POST /cotacoes/itens/{id}/recuperar": lambda s: (f"/cotacoes/itens/{s.quote(LOST)}/recuperar", PAGE),
    "POST /cotacoes/itens/{id}/cancelar": lambda s: (f"/cotacoes/itens/{s.quote()}/cancelar?sim=1", PAGE),
    "POST /cotacoes/itens/{id}/refazer": lambda s: (f"/cotacoes/itens/{s.quote(FAILED)}/refazer", PAGE),
    "POST /cotacoes/itens/{id}/aceitar": lambda s: (f"/cotacoes/itens/{s.quote(WELL)}/aceitar", form(reason="serve")),
    "POST /cotacoes/itens/{id}/recusar": lambda s: (f"/cotacoes/itens/{s.quote(WELL)}/recusar", form(reason="caro")),
    "POST /cotacoes/itens/{id}/fontes": lambda s: (
        f"/cotacoes/itens/{s.quote(WELL)}/fontes",
        form(title="Mesa", price="1.234,56", kind="SUPPLIER", reason="pesquisa por telefone"),
    ),
    "POST /cotacoes/itens/{id}/fontes/{source}/descartar": lambda s: (f"{s.source()}/descartar", form(reason="outra")),
    "POST /cotacoes/itens/{id}/fontes/{source}/aproveitar": lambda s: (
        f"{s.source(counts=False)}/aproveitar",
        form(reason="serve"),
    ),
    "POST /cotacoes/itens/{id}/fontes/{source}/captura": lambda s: (
        s.page_without_picture("/cotacoes/itens/{}/fontes/{}/captura"),
        PAGE,
    ),
    "POST /cotacoes/itens/{id}/fechar": lambda s: (f"/cotacoes/itens/{s.quote(DONE)}/fechar?sim=1", PAGE),
    "POST /cotacoes/listas/{id}/relatorio": lambda s: (f"/cotacoes/listas/{s.done_list()}/relatorio", PAGE),
    "POST /cotacoes/banco/atualizar": lambda s: ("/cotacoes/banco/atualizar" if s.vehicle() else "", form(mode="IPCA")),
    "POST /cotacoes/banco/{id}/atualizar": lambda s: (f"/cotacoes/banco/{s.vehicle()}/atualizar", form(mode="IPCA")),
    "POST /cotacoes/banco/{id}/modo": lambda s: (f"/cotacoes/banco/{s.vehicle()}/modo", form(mode="SKIP")),
    "POST /cotacoes/banco/{id}/preco": lambda s: (
        f"/cotacoes/banco/{s.vehicle()}/preco",
        form(price="21.345,00", reason="Laudo 12"),
    ),
    "POST /cotacoes/banco/decisoes/{update}/{word}": lambda s: (
        f"/cotacoes/banco/decisoes/{s.bank_update()}/aceitar",
        form(reason="Confere"),
    ),
    "POST /cotacoes/listas/previa": lambda _: ("/cotacoes/listas/previa", {"files": LIST, **PAGE}),
    "POST /cotacoes/listas": lambda s: (
        "/cotacoes/listas",
        {"files": {"arquivo": ("l.csv", f"descricao\nMesa {s.number()}\n".encode())}, **PAGE},
    ),
    "POST /cotacoes/listas/{id}/retomar": lambda s: (f"/cotacoes/listas/{s.list(paused=True)}/retomar", PAGE),
    "POST /cotacoes/listas/{id}/reprocessar-erros": lambda s: (
        f"/cotacoes/listas/{s.list(paused=True)}/reprocessar-erros",
        PAGE,
    ),
    "POST /cotacoes/listas/{id}/cancelar": lambda s: (f"/cotacoes/listas/{s.list()}/cancelar?sim=1", PAGE),
    "POST /console/batches/{id}/resume": lambda s: (f"/console/batches/{s.batch(then='pause')}/resume", PAGE),
    "POST /console/batches/{id}/retry": lambda s: (f"/console/batches/{s.batch()}/retry", PAGE),
    "POST /console/batches/{id}/retry-ticked": lambda s: (
        f"/console/batches/{s.batch()}/retry-ticked",
        form(**{"job-1": "1"}),
    ),
    "POST /console/batches/{id}/pause": lambda s: (f"/console/batches/{s.batch()}/pause", PAGE),
    "POST /console/batches/{id}/cancel": lambda s: (f"/console/batches/{s.batch()}/cancel", PAGE),
    "POST /console/batches/{id}/change": lambda s: (f"/console/batches/{s.batch()}/change", form(name="y")),
    "POST /api/v1/batches": lambda _: (f"{API}/batches", body(pipeline="double", name="x", jobs=[{"input": 1}])),
    "POST /api/v1/batches/{id}/jobs": lambda s: (f"{API}/batches/{s.batch(seal=False)}/jobs", body(jobs=MORE)),
    "POST /api/v1/batches/{id}/seal": lambda s: (f"{API}/batches/{s.batch(seal=False)}/seal", {}),
    "POST /api/v1/batches/{id}/resume": lambda s: (f"{API}/batches/{s.batch(then='pause')}/resume", {}),
    "POST /api/v1/batches/{id}/retry-failed": lambda s: (
        f"{API}/batches/{s.batch(then='cancel')}/retry-failed",
        body(cancelled=True),
    ),
    "POST /api/v1/batches/{id}/restart": lambda s: (f"{API}/batches/{s.batch(then='cancel')}/restart", {}),
    "POST /api/v1/batches/{id}/pause": lambda s: (f"{API}/batches/{s.batch()}/pause", {}),
    "POST /api/v1/batches/{id}/release": lambda s: (f"{API}/batches/{s.batch()}/release", {}),
    "POST /api/v1/batches/{id}/cancel": lambda s: (f"{API}/batches/{s.batch()}/cancel", {}),
    "PATCH /api/v1/batches/{id}": lambda s: (f"{API}/batches/{s.batch()}", {"json": {"name": "y"}}),
    "POST /api/v1/jobs": lambda _: (f"{API}/jobs", {"json": {"pipeline": "double", "input": 1}}),
    "POST /api/v1/jobs/{id}/retry": lambda s: (f"{API}/jobs/{s.job(ended=True)}/retry", {}),
    "POST /api/v1/jobs/{id}/cancel": lambda s: (f"{API}/jobs/{s.job()}/cancel", {}),
    "POST /api/v1/jobs/{id}/discard": lambda s: (f"{API}/jobs/{s.failed()}/discard", body(reason="not worth it")),
    "POST /api/v1/jobs/{id}/reinstate": lambda s: (f"{API}/jobs/{s.failed(discarded=True)}/reinstate", {}),
    "POST /console/jobs/{id}/discard": lambda s: (f"/console/jobs/{s.failed()}/discard", form(reason="x")),
    "POST /console/jobs/{id}/reinstate": lambda s: (f"/console/jobs/{s.failed(discarded=True)}/reinstate", PAGE),
    "POST /api/v1/batches/{id}/replan": lambda s: (f"{API}/batches/{s.batch()}/replan", body(configuration={"a": 1})),
    "POST /console/batches/{id}/replan": lambda s: (
        f"/console/batches/{s.batch()}/replan",
        form(configuration='{"a": 1}', note="x"),
    ),
    "POST /api/v1/jobs/{id}/restart": lambda s: (f"{API}/jobs/{s.job(ended=True)}/restart", {}),
    "POST /api/v1/jobs/{id}/signal": lambda s: (f"{API}/jobs/{s.job(pipeline='wait')}/signal", body(name="answer")),
    "POST /api/v1/operations": lambda _: (f"{API}/operations", body(action="retry", filter={})),
    "POST /api/v1/operations/{id}/cancel": lambda s: (f"{API}/operations/{s.operation()}/cancel", {}),
    "POST /api/v1/views": lambda _: (f"{API}/views", body(name="v", page="errors", query="hours=24")),
    "DELETE /api/v1/views/{id}": lambda s: (f"{API}/views/{s.view()}", {}),
    "POST /console/operations": lambda _: ("/console/operations", form(action="retry")),
    "POST /console/operations/{id}/cancel": lambda s: (f"/console/operations/{s.operation()}/cancel", PAGE),
    "POST /console/views": lambda _: ("/console/views", form(name="w", page="errors")),
    "POST /console/views/{id}/remove": lambda s: (f"/console/views/{s.view()}/remove", PAGE),
    "POST /console/jobs/{id}/retry": lambda s: (f"/console/jobs/{s.job(ended=True)}/retry", PAGE),
    "POST /console/jobs/{id}/restart": lambda s: (f"/console/jobs/{s.job(ended=True)}/restart", form(step="")),
    "POST /console/jobs/{id}/cancel": lambda s: (f"/console/jobs/{s.job()}/cancel", form(reason="x")),
    "POST /console/jobs/{id}/signal": lambda s: (
        f"/console/jobs/{s.job(pipeline='wait')}/signal",
        form(name="answer", value="x"),
    ),
    "POST /api/v1/reviews/{id}/accept": lambda s: (f"{API}/reviews/{s.review()}/accept", {}),
    "POST /api/v1/reviews/{id}/correct": lambda s: (f"{API}/reviews/{s.review()}/correct", body(value=3)),
    "POST /api/v1/reviews/{id}/reject": lambda s: (f"{API}/reviews/{s.review()}/reject", {}),
    "POST /api/v1/reviews/{id}/skip": lambda s: (f"{API}/reviews/{s.review()}/skip", {}),
    "POST /api/v1/reviews/undo": lambda s: (f"{API}/reviews/undo" if s.review(decided=True) else "", {}),
    "POST /console/review/{id}": lambda s: (f"/console/review/{s.review()}", form(do="accept")),
    "POST /console/review/undo": lambda s: ("/console/review/undo" if s.review(decided=True) else "", form(n="1")),
    "POST /api/v1/prices": lambda _: (f"{API}/prices", {"json": {"provider": "p", "model": "m", "input": "1"}}),
    "POST /api/v1/calls/reprice": lambda _: (f"{API}/calls/reprice", {}),
    "PUT /api/v1/limits/{name}": lambda _: (f"{API}/limits/p/m", {"json": {"requests": 5}}),
    "DELETE /api/v1/limits/{name}": lambda s: (f"{API}/limits/{s.limit()}", {}),
    "POST /api/v1/queues/{name}/pause": lambda _: (f"{API}/queues/q/pause", {}),
    "POST /api/v1/queues/{name}/resume": lambda _: (f"{API}/queues/q/resume", {}),
    "POST /api/v1/queues/{name}/weight": lambda _: (f"{API}/queues/q/weight", {"json": {"weight": 2}}),
    "POST /api/v1/queues/{name}/limit": lambda _: (f"{API}/queues/q/limit", {"json": {"lane": "a", "at_once": 1}}),
    "POST /api/v1/breakers/{name}/close": lambda s: (f"{API}/breakers/{s.limit()}/close", {}),
    "POST /api/v1/workers/{label}/drain": lambda s: (f"{API}/workers/{s.worker()}/drain", {}),
    "POST /api/v1/schedules": lambda s: (
        f"{API}/schedules", body(name=f"n{s.number()}", pipeline="double", input=1, cron="0 4 * * *")
    ),
    "PATCH /api/v1/schedules/{name}": lambda s: (f"{API}/schedules/{s.schedule()}", body(cron="0 5 * * *")),
    "DELETE /api/v1/schedules/{name}": lambda s: (f"{API}/schedules/{s.schedule()}", {}),
    "POST /console/queues/{name}/pause": lambda _: ("/console/queues/c/pause", form(reason="x")),
    "POST /console/queues/{name}/resume": lambda _: ("/console/queues/c/resume", PAGE),
    "POST /console/queues/{name}/weight": lambda _: ("/console/queues/c/weight", form(weight="2")),
    "POST /console/queues/{name}/limit": lambda _: ("/console/queues/c/limit", form(lane="a", at_once="1")),
    "POST /console/workers/{label}/drain": lambda s: (f"/console/workers/{s.worker()}/drain", PAGE),
    "POST /console/limits": lambda s: ("/console/limits", form(name=f"p{s.number()}/m", requests="5")),
    "POST /console/limits/{name}/change": lambda s: (f"/console/limits/{s.limit()}/change", form(requests="5")),
    "POST /console/limits/{name}/remove": lambda s: (f"/console/limits/{s.limit()}/remove", PAGE),
    "POST /console/limits/{name}/close": lambda s: (f"/console/limits/{s.limit()}/close", PAGE),
    "POST /console/schedules": lambda s: (
        "/console/schedules", form(name=f"n{s.number()}", pipeline="double", input="1", cron="0 4 * * *", zone="UTC")
    ),
    "POST /console/schedules/{name}/change": lambda s: (
        f"/console/schedules/{s.schedule()}/change", form(cron="0 5 * * *", zone="UTC")
    ),
    "POST /console/schedules/{name}/run": lambda s: (f"/console/schedules/{s.schedule()}/run", PAGE),
    "POST /console/schedules/{name}/pause": lambda s: (f"/console/schedules/{s.schedule()}/pause", PAGE),
    "POST /console/schedules/{name}/resume": lambda s: (f"/console/schedules/{s.schedule()}/resume", PAGE),
    "POST /console/schedules/{name}/remove": lambda s: (f"/console/schedules/{s.schedule()}/remove", PAGE),
    "POST /console/costs/prices": lambda _: ("/console/costs/prices", form(provider="p", model="m", input="1")),
    "POST /api/v1/schedules/{name}/run": lambda s: (f"{API}/schedules/{s.schedule()}/run", {}),
    "POST /api/v1/schedules/{name}/pause": lambda s: (f"{API}/schedules/{s.schedule()}/pause", {}),
    "POST /api/v1/schedules/{name}/resume": lambda s: (f"{API}/schedules/{s.schedule()}/resume", {}),
    "POST /api/v1/embeddings": lambda _: (f"{API}/embeddings", {"json": {"texts": [TEXT]}}),
    "POST /api/v1/books": lambda _: (f"{API}/books", {"files": {"file": ("b.txt", b"Um livro inteiro.")}}),
    "POST /api/summarize": lambda _: ("/api/summarize", {"files": {"file": ("c.txt", b"Outro livro inteiro.")}}),
    "POST /api/v1/books/{id}/plan": lambda s: (
        f"{API}/books/{s.book(doubtful=True)}/plan",
        body(edits=[{"action": "rename", "number": "1", "title": "Dois"}]),
    ),
    "POST /api/v1/books/{id}/resume": lambda s: (f"{API}/books/{s.book()}/resume", {}),
    "POST /api/v1/books/{id}/approve": lambda s: (f"{API}/books/{s.book(doubtful=True)}/approve", {}),
    "POST /api/v1/books/{id}/pause": lambda s: (f"{API}/books/{s.book()}/pause", {}),
    "POST /api/v1/books/{id}/feedback": lambda s: (
        f"{API}/books/{s.book()}/feedback",
        body(kind="error", message="Falta o fim."),
    ),
    "POST /api/v1/books/{id}/feedback/{number}/answer": lambda s: (f"{s.feedback()}/answer", body(answer="Obrigado.")),
    "POST /prompts": lambda s: ("/prompts", {"json": {"nome": f"n{s.number()}", "conteudo": PROMPT}}),
    "PUT /prompts/{id}": lambda s: (f"/prompts/{s.prompt()}", {"json": {"descricao": "d"}}),
    "DELETE /prompts/{id}": lambda s: (f"/prompts/{s.prompt()}", {}),
    "POST /projetos": lambda s: ("/projetos", {"json": {"nome": f"n{s.number()}"}}),
    "PUT /projetos/{id}": lambda s: (f"/projetos/{s.project()}", {"json": {"descricao": "d"}}),
    "DELETE /projetos/{id}": lambda s: (f"/projetos/{s.project()}", {}),
    "POST /projetos/{id}/codigos": lambda s: (f"/projetos/{s.project()}/codigos", {"json": {"codigos": ["falta"]}}),
    "DELETE /codigos/{id}": lambda s: (f"/codigos/{s.code()}", {}),
    "POST /lotes/{id}/upload": lambda s: (
        f"/lotes/{s.project()}/upload",
        {"files": {"arquivos": ("d.txt", NOTE[1] + b" d")}},
    ),
    "POST /classificar-avulso": lambda _: ("/classificar-avulso", FILE),
    "POST /projetos/{id}/executar": lambda s: (f"/projetos/{s.project()}/executar", {}),
    "POST /execucoes/{id}/retomar": lambda s: (f"/execucoes/{s.execution('pausar')}/retomar", {}),
    "POST /execucoes/{id}/reprocessar-erros": lambda s: (f"/execucoes/{s.execution()}/reprocessar-erros", {}),
    "POST /execucoes/{id}/refinar": lambda s: (f"/execucoes/{s.execution('cancelar')}/refinar", {}),
    "POST /execucoes/{id}/replanejar": lambda s: (
        f"/execucoes/{s.execution()}/replanejar",
        body(prompt_id=s.prompt()),
    ),
    "POST /projetos/{id}/exemplos": lambda s: (
        f"/projetos/{s.project()}/exemplos",
        body(exemplos=[{"documento": NOTE[0], "categoria": "ata"}]),
    ),
    "POST /projetos/{id}/exemplos/arquivo": lambda s: (
        f"/projetos/{s.project()}/exemplos/arquivo",
        {"files": {"arquivo": ("l.csv", f"file,label\n{NOTE[0]},ata\n".encode())}},
    ),
    "DELETE /exemplos/{id}": lambda s: (f"/exemplos/{s.example()}", {}),
    "POST /execucoes/{id}/cancelar": lambda s: (f"/execucoes/{s.execution()}/cancelar", {}),
    "POST /execucoes/{id}/pausar": lambda s: (f"/execucoes/{s.execution()}/pausar", {}),
    "DELETE /execucoes/{id}": lambda s: (f"/execucoes/{s.execution('cancelar')}", {}),
    "POST /watchdog/verificar": lambda _: ("/watchdog/verificar", {}),
    "POST /api/system/recover-stuck": lambda s: ("/api/system/recover-stuck" if s.stuck_quote() else "", {}),
    "POST /api/system/recover-quote/{id}": lambda s: (f"/api/system/recover-quote/{s.stuck_quote()}", {}),
    "POST /api/system/resume-batch/{id}": lambda s: (f"/api/system/resume-batch/{s.quote_batch()}", {}),
    "POST /api/system/cleanup-old": lambda _: ("/api/system/cleanup-old", {}),
    "POST /api/quotes": lambda s: ("/api/quotes", form(inputText=f"Mesa {s.number()}")),
    "POST /api/quotes/{id}/cancel": lambda s: (f"/api/quotes/{s.quote()}/cancel", {}),
    "POST /api/quotes/{id}/generate-pdf": lambda s: (f"/api/quotes/{s.quote(DONE)}/generate-pdf", body(close=True)),
    "POST /api/quotes/{id}/screenshots/{file}/retry": lambda s: (
        s.page_without_picture("/api/quotes/{}/screenshots/{}/retry"),
        {},
    ),
    "POST /api/quotes/{id}/requote": lambda s: (f"/api/quotes/{s.quote(FAILED)}/requote", {}),
    "POST /api/batch-quotes/text": lambda s: ("/api/batch-quotes/text", body(inputText=f"Mesa {s.number()}; Cadeira")),
    "POST /api/batch-quotes/file": lambda s: (
        "/api/batch-quotes/file",
        {"files": {"file": ("l.csv", f"descricao\nMesa {s.number()}\n".encode())}},
    ),
    "POST /api/batch-quotes/images": lambda s: (
        "/api/batch-quotes/images",
        {"files": {"images": ("mesa.png", png(10 + s.number(), 10))}},
    ),
    "POST /api/batch-quotes/{id}/generate-results": lambda s: (
        f"/api/batch-quotes/{s.done_list()}/generate-results",
        {},
    ),
    "POST /api/price-bank/update": lambda s: ("/api/price-bank/update" if s.vehicle() else "", {}),
    "POST /api/price-bank/{id}/update": lambda s: (f"/api/price-bank/{s.vehicle()}/update", {}),
    "POST /api/price-bank/{id}/mode": lambda s: (f"/api/price-bank/{s.vehicle()}/mode", body(mode="SKIP")),
    "POST /api/price-bank/{id}/price": lambda s: (
        f"/api/price-bank/{s.vehicle()}/price",
        body(price="21345.00", reason="Laudo 12"),
    ),
    "POST /api/price-bank/updates/{update}/decide": lambda s: (
        f"/api/price-bank/updates/{s.bank_update()}/decide",
        body(accept=True, reason="Confere"),
    ),
    "POST /api/batch-quotes/{id}/resume": lambda s: (f"/api/batch-quotes/{s.list(paused=True)}/resume", {}),
    "POST /api/batch-quotes/{id}/cancel": lambda s: (f"/api/batch-quotes/{s.list()}/cancel", {}),
}  # fmt: skip
"""How each is asked so that it does something. Those of the classifier have two addresses, and are asked at both."""


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return {**providers(tmp_path / "blobs"), Classifier: LocalClassifier(Lexical())}


@pytest.fixture
def whole(open_house: Open, given: dict[type, object]) -> House:
    # By the key of the environment: the token of this machine would open no more once a test makes a key.
    house = open_house(
        pipelines=PIPELINES, extensions=ALL, providers=given, api_key=ENVIRONMENT_KEY, webhook_private="on"
    )
    house.client.headers["Authorization"] = f"Bearer {ENVIRONMENT_KEY}"
    return house


def request_for(route: str) -> tuple[Callable[[Stage], Asked], str] | None:
    """How to ask *route*, and what stands before its path."""
    method, _, path = route.partition(" ")
    short = f"{method} {path.removeprefix(DESK)}"
    if route in REQUESTS:
        return REQUESTS[route], ""
    return (REQUESTS[short], DESK) if short in REQUESTS else None


HALVES = {
    "DELETE /documents/{id}": (True, False),
    "DELETE /api/v1/webhooks/{id}": (True, False),
    "POST /console/webhooks/{id}/remove": (True, False),
    "PUT /api/v1/limits/{name}": (False, True),
    "DELETE /api/v1/limits/{name}": (True, False),
    "POST /console/limits/{name}/remove": (True, False),
    "POST /api/v1/queues/{name}/pause": (False, True),
    "DELETE /api/v1/views/{id}": (True, False),
    "POST /console/views/{id}/remove": (True, False),
    "POST /console/queues/{name}/pause": (False, True),
    "DELETE /api/v1/schedules/{name}": (True, False),
    "POST /console/schedules/{name}/remove": (True, False),
}
"""What is gone after a change, or was not there before it: whether the row says how it stood before, and after."""


def test_every_route_that_changes_something_leaves_a_row(whole: House, given: dict[type, object]) -> None:
    app = Retoma(settings=whole.settings, pipelines=PIPELINES, extensions=ALL, providers=given)
    stage, silent, unknown, blind = Stage(whole), [], [], []
    for route in {route: None for route, _ in changing(app)}:
        if route in SIGNING | LEASING:
            continue
        how = request_for(route)
        if how is None:
            unknown.append(route)
            continue
        path, options = how[0](stage)
        answered = whole.client.request(route.partition(" ")[0], how[1] + path, **options)
        assert answered.status_code < 400, (route, answered.status_code, answered.text[:500])
        newest = whole.ask(lambda app: app.audit.page(limit=1))[0]
        if (newest.route, newest.outcome, newest.who) != (route, "done", "environment"):
            silent.append((route, newest.route, newest.outcome))
        stood = (newest.before is not None, newest.after is not None)
        if "{" in route and stood != HALVES.get(route, (True, True)):
            blind.append((route, stood))

    assert unknown == [], "say in REQUESTS how a new route is asked"
    assert silent == []
    assert blind == [], "how the thing stood before and after"


NOT_ONE = {"POST /classificar-avulso", "POST /classificador/teste"}
"""Trials: nothing is kept, and what a model was asked is written down as it is asked."""
ASIDE = {"audit", "duties", "loose_blobs"}
"""Tables that no change is in; files that nothing belongs to are swept away."""
FAULT = """
create function retoma.fault() returns trigger language plpgsql as $$ begin raise 'a fault of the tests'; end $$;
create trigger fault before insert on retoma.audit
    for each row when (new.outcome = 'done') execute function retoma.fault();
"""


def test_no_change_is_there_without_its_row(whole: House, given: dict[type, object], psql: psycopg.Connection) -> None:
    """Of each change that is one transaction: what fails between it and its row undoes it."""
    found = psql.execute(
        "select schemaname, tablename from pg_tables where schemaname in ('retoma', 'books', 'quotes')"
    )
    tables = [f"{schema}.{name}" for schema, name in found]

    def everything() -> dict[str, list[Any]]:
        kept = sorted(set(tables) - {f"retoma.{name}" for name in ASIDE})
        every = "select t::text from {} as t order by 1"
        return {name: psql.execute(every.format(name).encode()).fetchall() for name in kept}

    app = Retoma(settings=whole.settings, pipelines=PIPELINES, extensions=ALL, providers=given)
    stage, done = Stage(whole), []
    for route in {route: None for route, _ in changing(app)}:
        if route in SIGNING | LEASING or (how := request_for(route)) is None or route.replace(DESK, "") in NOT_ONE:
            continue
        path, options = how[0](stage)
        psql.execute(FAULT.encode())
        before = everything()
        answered = whole.client.request(route.partition(" ")[0], how[1] + path, **options)
        changed = [name for name, rows in everything().items() if rows != before[name]]
        psql.execute("drop trigger fault on retoma.audit; drop function retoma.fault()")
        if changed or answered.status_code < 500:
            done.append((route, answered.status_code, changed))

    assert done == []


def test_each_document_of_an_upload_has_a_row_and_one_that_is_known_already_has_none(whole: House) -> None:
    texts = [f"{LEASE} {number}".encode() for number in range(3)]
    told: list[Event] = []
    end = listen(told.append)

    def send(*which: int) -> list[str]:
        files = [("files", (f"{each}.txt", texts[each])) for each in which]
        return [each["id"] for each in Stage(whole).post("/documents", files=files)["documents"]]

    sent, again, known = send(0, 1), send(1, 2), send(2)
    end()

    found = whole.ask(lambda app: app.audit.page())[::-1]
    assert [row.object_id for row in found] == [*sent, again[1], *known]
    assert {(row.action, row.outcome, row.object_kind) for row in found} == {("document.upload", "done", "document")}
    assert [row.after["sha256"] for row in found[:2]] == [hashlib.sha256(text).hexdigest() for text in texts[:2]]
    assert [each.object for each in told if isinstance(each, ActionAudited)] == [
        f"document {row.object_id}" for row in found
    ]


@pytest.mark.parametrize("path", [f"{DESK}/lotes/{{}}/upload", "/classificador/lotes/{}/arquivos"])
def test_each_document_of_a_lot_has_one_row_and_one_that_is_known_already_has_none(whole: House, path: str) -> None:
    stage, told = Stage(whole), []
    lot = stage.project()
    texts = [NOTE[1] + f" {number}".encode() for number in range(3)]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in (1, 2):
            archive.writestr(f"{number}.txt", texts[number])
    before = len(whole.ask(lambda app: app.audit.page()))
    end = listen(told.append)

    for name, content in (("0.txt", texts[0]), ("mais.zip", packed.getvalue())):
        whole.client.post(path.format(lot), files={"arquivos": (name, content)}, **PAGE).raise_for_status()
    end()

    found = whole.ask(lambda app: app.audit.page())[: -before or None][::-1]
    assert [row.after["sha256"] for row in found] == [hashlib.sha256(text).hexdigest() for text in texts]
    assert {(row.object_kind, row.object_id, row.outcome, row.after["mode"]) for row in found} == {
        ("project", str(lot), "done", "whole")
    }
    assert len([each for each in told if isinstance(each, ActionAudited)]) == 3


def test_the_log_does_not_tell_of_a_change_that_was_undone(whole: House, psql: psycopg.Connection) -> None:
    psql.execute(FAULT.encode())
    told: list[Event] = []
    end = listen(told.append)

    whole.client.post(f"{API}/queues/q/pause")
    whole.client.post("/documents", files={"files": ("a.txt", LEASE.encode())})
    end()

    found = [(each.action, each.outcome) for each in told if isinstance(each, ActionAudited)]
    assert found == [("document.upload", "failed")]


def test_every_route_stands_under_a_noun_that_the_audit_knows(given: dict[type, object]) -> None:
    app = Retoma(settings=Settings.load(), pipelines=PIPELINES, extensions=ALL, providers=given)

    lost = [
        route for route, each in changing(app) if route not in SIGNING and spoken_of(each.path, nouns_of(app)) is None
    ]
    by_other_doors = [each.path for _, each in changing(app) if not issubclass(type(each.original_route), ApiRoute)]

    assert lost == [], f"nouns are {', '.join(nouns_of(app))}"
    assert by_other_doors == []
