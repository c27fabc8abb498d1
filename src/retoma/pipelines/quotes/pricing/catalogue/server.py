"""The catalogue on a loopback port: the pages of its shops by their names, and its records as the services answer."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Mapping
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from retoma.pipelines.quotes.pricing.catalogue import data
from retoma.pipelines.quotes.pricing.catalogue.html import render
from retoma.pipelines.quotes.pricing.domains import CATALOGUE_SUFFIX

LOOPBACK = "127.0.0.1"
MOST_RESULTS = 40
_WORDS = re.compile(r"[a-z0-9]+")
_LEAST_WORD = 3


class CatalogueServer:
    """Serves the catalogue from a thread of its own, from the first time that its address is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        with self._lock:
            if self._server is None:
                self._server = _Server((LOOPBACK, 0), _Handler)
                threading.Thread(target=self._server.serve_forever, name="catalogue", daemon=True).start()
            return LOOPBACK, int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of its services."""
        host, port = self.address
        return f"http://{host}:{port}"

    def close(self) -> None:
        """Stop, if it serves."""
        with self._lock:
            server, self._server = self._server, None
        if server:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        host = (self.headers.get("host") or "").partition(":")[0].lower()
        parts = urlsplit(self.path)
        if host.endswith(CATALOGUE_SUFFIX):
            self._page(f"{host.removeprefix('www.')}{parts.path}")
        else:
            status, value = answer(parts.path, dict(parse_qsl(parts.query)))
            self._send(status, json.dumps(value).encode(), "application/json")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the caller knows what it asked."""

    def _page(self, place: str) -> None:
        page = data()["pages"].get(place)
        if page is None:
            self._send(404, b"<h1>404</h1>", "text/html; charset=utf-8")
        else:
            status = 403 if page["shape"] == "blocked" else 200
            self._send(status, render(page).encode(), "text/html; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(path: str, query: Mapping[str, str]) -> tuple[int, Any]:  # noqa: PLR0911 - one for each address
    """What the services answer to a request: status and JSON."""
    match path.strip("/").split("/"):
        case ["search.json"]:
            return 200, _Shopping().answer(query)
        case ["modulo-pesquisa-preco", "1_consultarMaterial"]:
            return 200, _compras(query)
        case ["api", "consulta", "v1", "contratacoes", "publicacao"]:
            return 200, _contracts(query)
        case ["api", "pncp", "v1", "orgaos", cnpj, "compras", year, sequence, "itens"]:
            return 200, data()["pncp"]["itens"].get(f"{cnpj}/{year}/{sequence}", [])
        case ["api", "pncp", "v1", "orgaos", cnpj, "compras", year, sequence, "itens", number, "resultados"]:
            return 200, data()["pncp"]["resultados"].get(f"{cnpj}/{year}/{sequence}/{number}", [])
        case ["fipe", kind, *rest] if (found := _fipe(data()["fipe"].get(kind, {}), rest)) is not None:
            return 200, found
        case _:
            return 404, {"error": "not found"}


class _Shopping:
    """Google Shopping as SerpAPI answers it."""

    def answer(self, query: Mapping[str, str]) -> Any:
        told = {"search_metadata": {"id": "catalogue", "status": "Success"}, "search_parameters": {**query}}
        told["search_parameters"].pop("api_key", None)
        if query.get("engine") == "google_immersive_product":
            return {**told, "product_results": {"stores": self._stores(query.get("page_token", ""))}}
        found = self._found(query.get("q", ""))
        if not found:
            return {**told, "error": "Google hasn't returned any results for this query."}
        return {**told, "shopping_results": found}

    @cached_property
    def _results(self) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = data()["shopping_results"]
        return results

    def _found(self, query: str) -> list[dict[str, Any]]:
        """What shares the most words with *query*, and at least half of them."""
        wanted = _words(query)
        scored = [(len(wanted & _words(each["title"])), each) for each in self._results]
        best = max((score for score, _ in scored), default=0)
        if not wanted or best * 2 < len(wanted):
            return []
        # The address of the shop comes with the second call only, as with the service.
        hits = [{key: each[key] for key in each if key != "link"} for score, each in scored if score == best]
        return [{**each, "position": place} for place, each in enumerate(hits[:MOST_RESULTS], start=1)]

    def _stores(self, token: str) -> list[dict[str, Any]]:
        return [
            {"name": each["source"], "link": each["link"], "title": each["title"], "price": each["price"],
             "extracted_price": each["extracted_price"]}
            for each in self._results
            if each["immersive_product_page_token"] == token
        ]  # fmt: skip


def _compras(query: Mapping[str, str]) -> Any:
    rows = [each for each in data()["compras"] if str(each["codigoItemCatalogo"]) == query.get("codigoItemCatalogo")]
    return {"resultado": rows, "totalRegistros": len(rows), "totalPaginas": 1, "paginasRestantes": 0}


def _contracts(query: Mapping[str, str]) -> Any:
    rows = data()["pncp"]["contratacoes"] if query.get("codigoModalidadeContratacao") == "6" else []
    return {"data": rows, "totalRegistros": len(rows), "totalPaginas": 1, "paginasRestantes": 0, "empty": not rows}


def _fipe(brands: Mapping[str, Any], rest: list[str]) -> Any:
    match rest:
        case ["marcas"]:
            return [{"codigo": code, "nome": each["nome"]} for code, each in brands.items()]
        case ["marcas", brand, "modelos"] if brand in brands:
            models = brands[brand]["modelos"]
            return {
                "modelos": [{"codigo": int(code), "nome": each["nome"]} for code, each in models.items()],
                "anos": [],
            }
        case ["marcas", brand, "modelos", model, "anos"] if model in brands.get(brand, {}).get("modelos", {}):
            years = brands[brand]["modelos"][model]["anos"]
            return [
                {"codigo": code, "nome": f"{each['AnoModelo']} {each['Combustivel']}"} for code, each in years.items()
            ]
        case ["marcas", brand, "modelos", model, "anos", year]:
            return brands.get(brand, {}).get("modelos", {}).get(model, {}).get("anos", {}).get(year)
    return None


def _words(text: str) -> set[str]:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return {word for word in _WORDS.findall(plain) if len(word) >= _LEAST_WORD or word.isdigit()}
