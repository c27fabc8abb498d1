"""What the tests of the screen stand on: documents, a worker, a wire that can be cut, the database behind it all."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
from nursery import Begun, begin

from ..web.conftest import House  # noqa: TID252 - the house is that of the API's own tests

HERE = Path(__file__).parent
T = TypeVar("T")

KINDS = [
    " ".join(lines.split())
    for lines in (
        """Petição inicial. Excelentíssimo senhor juiz de direito da vara cível. O autor propõe a presente ação
        de cobrança em face do réu, pelos fatos e fundamentos a seguir, e requer a citação e a procedência
        do pedido. Valor da causa.""",
        """Sentença. Vistos. Ante o exposto, julgo procedente o pedido e condeno o réu ao pagamento das custas
        e honorários. Publique-se, registre-se, intimem-se. Transitada em julgado, arquivem-se os autos.""",
        """Contrato de prestação de serviços. As partes, contratante e contratada, ajustam as cláusulas
        seguintes. Cláusula primeira, do objeto. Cláusula segunda, do preço e da forma de pagamento. Foro de
        eleição. Testemunhas.""",
        """Nota fiscal eletrônica. Emitente, destinatário, CNPJ, natureza da operação, base de cálculo do ICMS,
        valor total dos produtos, valor do frete, valor total da nota, chave de acesso.""",
    )
]


def documents(folder: Path, count: int, *, unreadable: int = 0) -> list[Path]:
    """Texts, each with its own number in its first line."""
    folder.mkdir(exist_ok=True)
    made = []
    for number in range(count):
        mark = " ILEGÍVEL" if number < unreadable else ""
        path = folder / f"doc-{number:03}.txt"
        path.write_text(f"Documento {number:03}{mark}\n\n{KINDS[number % len(KINDS)]}\n" * 2, encoding="utf-8")
        made.append(path)
    return made


def until(look: Callable[[], T], *, seconds: float = 240.0, what: str = "") -> T:
    """What *look* gives, once it gives something; the seconds are when to give up, not a measure."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"It did not happen within {seconds:g} s: {what or look}"
        time.sleep(0.05)
    return found


@contextmanager
def working(database_url: str, folder: Path) -> Iterator[Begun]:
    """A worker, as a process of its own."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("RETOMA_")}
    others["RETOMA_TOKEN"] = "off"
    environment = others | {
        "DATABASE_URL": database_url,
        "SCREEN_FOLDER": str(folder),
        "PYTHONPATH": str(HERE),
        "RETOMA_LEASE_SECONDS": "4",
        "RETOMA_HEARTBEAT_SECONDS": "0.5",
        "RETOMA_SWEEP_SECONDS": "0.5",
        "RETOMA_POLL_SECONDS": "0.25",
        "RETOMA_WATCHDOG_SECONDS": "0.5",
        "RETOMA_DRAIN_SECONDS": "2",
    }
    words = ["-m", "retoma", "worker", "--app", "classifier_app:app", "--id", "ana"]
    with (folder / "worker.log").open("ab") as log:
        process = begin(words, environment=environment, folder=HERE, log=log)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        print((folder / "worker.log").read_text(errors="replace")[-3000:])  # noqa: T201 - shown when the test fails


class Wire:
    """A wire between browser and server. While it is cut, what was connected is reset and nobody is let in."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._loop = asyncio.new_event_loop()
        self.whole = True
        self.url = ""

    @contextmanager
    def opened(self) -> Iterator[Wire]:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        listener = self._do(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            self._do(self._ended(listener))
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)
            self._loop.close()

    def cut(self) -> None:
        self.whole = False
        self._do(self._reset())

    def mend(self) -> None:
        self.whole = True

    def _do(self, asked: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(10)

    async def _ended(self, listener: asyncio.Server) -> None:
        listener.close()
        await self._reset()
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _reset(self) -> None:
        for pair in list(self._pairs):
            for writer in pair:
                writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.whole:
            writer.transport.abort()
            return
        from_server, to_server = await asyncio.open_connection(self._to.hostname, self._to.port)
        pair = (writer, to_server)
        self._pairs.add(pair)
        with suppress(asyncio.CancelledError):
            await asyncio.gather(self._passed(reader, to_server), self._passed(from_server, writer))
        self._pairs.discard(pair)

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
        writer.close()


@dataclass
class Stage:
    """A server and its database, seen from outside."""

    house: House
    database_url: str
    folder: Path

    @property
    def url(self) -> str:
        return f"{self.house.url}/classificador"

    def lot(self, files: Sequence[Path], **settings: Any) -> int:
        """A lot that was sent and begun as programs do it; its execution."""
        client = self.house.client
        project = client.post("/classificador/api/projetos", json={"nome": "Petições de março", **settings}).json()[
            "id"
        ]
        sent = [("arquivos", (path.name, path.read_bytes())) for path in files]
        assert client.post(f"/classificador/api/lotes/{project}/upload", files=sent).json()["erros"] == 0
        begun = client.post(f"/classificador/api/projetos/{project}/executar")
        return int(begun.json()["execucao_id"])

    def begins(self, url: str) -> int:
        """The execution that a page is of, with a short patience."""
        id = int(urlsplit(url).path.rpartition("/")[2])
        self.run("update retoma.batches set stall_seconds = 2 where id = %s", id)
        return id

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()

    def run(self, query: str, *values: object) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(query, values)

    def state(self, id: int) -> str:
        return str(self.rows("select state from retoma.batches where id = %s", id)[0][0])

    def diary(self) -> list[str]:
        path = self.folder / "diary"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
