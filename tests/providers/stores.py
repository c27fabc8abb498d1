"""The services that the blob stores need, on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "azurite"
MOTO = Path(__file__).parents[1] / "servers" / "s3_service.py"
ACCOUNT_KEY = "c2VjcmV0LWtleS1vZi1vdXItYWNjb3VudC0wMTIzNDU2Nzg5Kys="
AWS_SECRET = "aws/secret+0123456789"


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


async def pieces(*given: bytes | Exception) -> AsyncIterator[bytes]:
    for each in given:
        if isinstance(each, Exception):
            raise each
        yield each
