"""A served program in a process of its own, on a database of its own, and the clients that ask it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.client import AsyncClient, Client
from retoma.testing import drain

from .client_program import PIPELINES

T = TypeVar("T")

PROGRAM = f"{Path(__file__).parent / 'client_program.py'}:app"
SECRET = "a key for the tests of the client"


@dataclass
class Served:
    """A server's address, and the database behind it by the other door."""

    url: str
    settings: Settings
    process: subprocess.Popen[str]

    def client(self, **options: Any) -> Client:
        return Client(self.url, api_key=SECRET, **options)

    def ask(self, question: Callable[[AsyncClient], Any], **options: Any) -> Any:
        """The answer of the client with await."""

        async def asked() -> Any:
            async with AsyncClient(self.url, api_key=SECRET, **options) as client:
                return await question(client)

        return asyncio.run(asked())

    def app(self, question: Callable[[Retoma], Any]) -> Any:
        """The answer of an app on the same database."""

        async def asked() -> Any:
            async with Retoma(settings=self.settings, pipelines=PIPELINES) as app:
                return await question(app)

        return asyncio.run(asked())

    def work(self) -> None:
        """Run what is ready."""
        asyncio.run(drain(Retoma(settings=self.settings, pipelines=PIPELINES)))


@pytest.fixture(scope="module")
def served(
    server: str, template: str, worker_id_of_run: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    name = f"client_{worker_id_of_run}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)")
        connection.execute(f"create database {name} template {template}")
    url = urlsplit(server)._replace(path=f"/{name}").geturl()
    settings = Settings.load(database_url=url)
    environment = {**os.environ, "DATABASE_URL": url, "RETOMA_API_KEY": SECRET}
    environment["RETOMA_HOME"] = str(tmp_path_factory.mktemp("home"))
    process = subprocess.Popen(
        [sys.executable, "-m", "retoma", "serve", "--port", "0", "--app", PROGRAM],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Served(_address(process), settings, process)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"The API is at (http://\S+)/api/v1\.", line):
            return found[1]
    raise AssertionError("".join(said))
