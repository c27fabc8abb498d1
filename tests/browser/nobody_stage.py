"""``retoma serve`` and ``retoma worker`` as processes of their own, and the provider that they ask."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import psycopg
from nursery import Begun, begin, said

from .classifier_stage import documents, until

HERE = Path(__file__).parent
GOOD_KEY = "sk-good"
QUICK = {
    "RETOMA_LEASE_SECONDS": "8",
    "RETOMA_HEARTBEAT_SECONDS": "1",
    "RETOMA_SWEEP_SECONDS": "0.5",
    "RETOMA_POLL_SECONDS": "0.25",
    "RETOMA_WATCHDOG_SECONDS": "0.5",
    "RETOMA_DRAIN_SECONDS": "2",
}


class Provider:
    """An OpenAI of our own: *mode* says how it feels, *asked* counts the requests."""

    def __init__(self) -> None:
        self.mode = "good"
        self.asked = 0
        self.pause = 0.2
        stage = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                stage.asked += 1
                status, body, headers = stage.answer(request, self.headers.get("authorization", ""))
                text = json.dumps(body).encode()
                with suppress(OSError):
                    self.send_response(status)
                    for name, value in {"content-type": "application/json", **headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # whoever asked was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, request: dict[str, Any], key: str) -> tuple[int, Any, dict[str, str]]:
        if key.removeprefix("Bearer ") != GOOD_KEY:
            said = "Incorrect API key provided. You can find your API key on your page."
            return 401, {"error": {"message": said, "code": "invalid_api_key"}}, {}
        time.sleep(self.pause)
        match self.mode:
            case "overloaded":
                return 503, {"error": {"message": "The engine is currently overloaded"}}, {}
            case "limiting":
                return 429, {"error": {"message": "Rate limit reached for requests"}}, {"retry-after": "1"}
            case "hanging":
                time.sleep(10)
        text = "não sei dizer" if self.mode == "prose" else json.dumps(_fitting(request), ensure_ascii=False)
        message = {"role": "assistant", "content": text, "refusal": None}
        usage = {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini", "usage": usage}
        return 200, {**made, "choices": [choice]}, {}

    @contextmanager
    def opened(self) -> Iterator[Provider]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def _fitting(request: dict[str, Any]) -> dict[str, Any]:
    categories = re.findall(r'"enum": (\[[^\]]*\])|"const": ("[^"]*")', json.dumps(request["response_format"]))
    kinds = json.loads(next(each[0] for each in categories if each[0])) if categories else ["contrato"]
    return {
        "categoria": kinds[0],
        "subcategoria": None,
        "confianca": "alta",
        "justificativa_breve": "É o que está escrito.",
        "numero_processo_cnj": None,
    }


class Grounds:
    """A server, workers that come and go, a provider, and the database behind it all."""

    def __init__(self, database_url: str, folder: Path, provider: Provider) -> None:
        self.provider = provider
        self._database_url = database_url
        self.folder = folder
        self._processes: list[Begun] = []
        self.key = GOOD_KEY
        self.url = ""

    def environment(self) -> dict[str, str]:
        others = {name: value for name, value in os.environ.items() if not name.startswith("RETOMA_")}
        others["RETOMA_TOKEN"] = "off"
        return (
            others
            | QUICK
            | {
                "DATABASE_URL": self._database_url,
                "NOBODY_FOLDER": str(self.folder),
                "PYTHONPATH": str(HERE),
                "OPENAI_API_KEY": self.key,
                "OPENAI_BASE_URL": self.provider.url,
            }
        )

    def _start(self, *words: str) -> Begun:
        command = ["-m", "retoma", *words, "--app", "nobody_app:app"]
        with (self.folder / f"{words[0]}.log").open("ab") as log:
            process = begin(command, environment=self.environment(), folder=HERE, log=log)
        self._processes.append(process)
        return process

    def serve(self) -> None:
        self._start("serve", "--port", "0")
        found = until(lambda: re.search(r"The API is at (http://\S+)/api/v1", self.log("serve")))
        self.url = found[1]

    def work(self) -> Begun:
        return self._start("worker", "--id", "ana")

    def kill(self, process: Begun) -> None:
        """The worker and all that it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        for each in self._processes:
            self.kill(each)
        for name in ("serve", "worker"):
            print(self.log(name)[-3000:])  # noqa: T201 - shown when the test fails

    def command(self, *words: str) -> str:
        """What a command of ours says to a person."""
        return said(["-m", "retoma", *words], environment=self.environment(), folder=HERE)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def lot(self, count: int, *, patience: float = 4.0, marked: str = "", **settings: Any) -> int:
        """An execution over so many documents that is called stalled after *patience* seconds."""
        files = documents(self.folder / "docs", count)
        if marked:
            files[0].write_text(f"{marked}\n{files[0].read_text(encoding='utf-8')}", encoding="utf-8")
        with httpx2.Client(base_url=f"{self.url}/classificador/api", timeout=240) as client:
            asked = {"nome": "Petições de março", "modelo": "gpt-4o-mini", "max_retries_documento": 50, **settings}
            project = client.post("/projetos", json=asked).json()["id"]
            sent = [("arquivos", (path.name, path.read_bytes())) for path in files]
            assert client.post(f"/lotes/{project}/upload", files=sent).json()["erros"] == 0
            id = int(client.post(f"/projetos/{project}/executar").json()["execucao_id"])
        self.rows("update retoma.batches set stall_seconds = %s where id = %s returning id", patience, id)
        return id

    def page(self, id: int) -> str:
        return f"{self.url}/classificador/execucoes/{id}"

    def detail(self, id: int) -> dict[str, Any]:
        return dict(httpx2.get(f"{self.url}/classificador/api/execucoes/{id}/status-detalhado", timeout=240).json())

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()

    def done(self, id: int) -> int:
        return int(
            self.rows("select count(*) from retoma.jobs where batch_id = %s and finished_at is not null", id)[0][0]
        )
