"""The services that the blob stores need, on this machine, and a store of its own for a test on each of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from azure.storage.blob import ContainerClient

from retoma.testing.wire import Served

TOOL = Path(__file__).parents[2] / "tools" / "azurite"
MOTO = Path(__file__).parents[1] / "servers" / "s3_service.py"
ACCOUNT_KEY = "c2VjcmV0LWtleS1vZi1vdXItYWNjb3VudC0wMTIzNDU2Nzg5Kys="
AWS_SECRET = "aws/secret+0123456789"
NOBODY = "http://127.0.0.1:9"
"""Where nobody listens."""


def connection_to(url: str, *, key: str = ACCOUNT_KEY) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName=ours;AccountKey={key};BlobEndpoint={url}/ours;"


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """The address of a running Azurite; the test is skipped, with the reason, where there can be none."""
    command = [TOOL, "--blobHost", "127.0.0.1", "--blobPort", "0", "--location", folder]
    env = {**os.environ, "AZURITE_ACCOUNTS": f"ours:{ACCOUNT_KEY}"}
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            if address := re.search(r"listens on (http://\S+)", line):
                yield address[1]
                return
            last = line.strip() or last
        pytest.skip(f"Azure Blob was not tried: {last}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # by its group: the tool may be waiting for npm
        process.communicate()


def s3(url: str, method: str, path: str) -> str:
    """What S3 itself says, past our own client."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request(method, path, headers={"Host": "s3.amazonaws.com"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@dataclass(frozen=True)
class Storage:
    """A store of a test's own: how a program is told of it, and what is in it, past our own client."""

    settings: dict[str, str]
    down: dict[str, str]
    """The same where nobody is at the other end."""
    names: Callable[[], list[str]]
    unmounted: dict[str, str] | None = None
    """The same where all that was kept is out of reach, when that is another thing."""

    @property
    def away(self) -> dict[str, str]:
        """Where nothing that was kept can be reached any more."""
        return self.unmounted or self.down


def folder_storage(folder: Path) -> Storage:
    def names() -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    unmounted = {"RETOMA_BLOBS": str(folder.with_name("unmounted"))}
    return Storage({"RETOMA_BLOBS": str(folder)}, {"RETOMA_BLOBS": "/dev/null/blobs"}, names, unmounted)


def azure_storage(url: str) -> Storage:
    container = f"container-{uuid4().hex[:12]}"

    def client() -> ContainerClient:
        return ContainerClient.from_connection_string(connection_to(url), container)

    def names() -> list[str]:
        with client() as opened:
            return sorted(each.name for each in opened.list_blobs())

    with client() as opened:
        opened.create_container()
    settings = {"RETOMA_BLOBS": "azure", "AZURE_STORAGE_CONTAINER": container}
    return Storage(
        settings | {"AZURE_STORAGE_CONNECTION_STRING": connection_to(url)},
        settings | {"AZURE_STORAGE_CONNECTION_STRING": connection_to(NOBODY)},
        names,
    )


def s3_storage(url: str) -> Storage:
    bucket = f"bucket-{uuid4().hex[:12]}"
    s3(url, "PUT", f"/{bucket}")
    settings = {
        "RETOMA_BLOBS": f"s3://{bucket}/ours",
        "AWS_ACCESS_KEY_ID": "AKIAOURS",
        "AWS_SECRET_ACCESS_KEY": AWS_SECRET,
        "AWS_REGION": "us-east-1",
    }

    def names() -> list[str]:
        listed = s3(url, "GET", f"/{bucket}") + s3(url, "GET", f"/{bucket}?uploads")  # half-done ones count as well
        return sorted(name.removeprefix("ours/") for name in re.findall(r"<Key>([^<]*)</Key>", listed))

    return Storage(settings | {"AWS_ENDPOINT_URL": url}, settings | {"AWS_ENDPOINT_URL": NOBODY}, names)


@pytest.fixture(scope="session")
def azurite_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with azurite(tmp_path_factory.mktemp("azurite")) as url:
        yield url


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    with Served(str(MOTO)) as served:
        yield served.url


@pytest.fixture(params=["folder", "azure", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Each store in turn; what needs no service starts none."""
    if request.param == "folder":
        return folder_storage(tmp_path / "blobs")
    url = request.getfixturevalue("azurite_url" if request.param == "azure" else "s3_url")
    return (azure_storage if request.param == "azure" else s3_storage)(url)


async def pieces(*given: bytes | Exception) -> AsyncIterator[bytes]:
    for each in given:
        if isinstance(each, Exception):
            raise each
        yield each
