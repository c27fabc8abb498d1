"""Blobs: one contract, kept by a folder, by Azure Storage (Azurite) and by S3 (moto)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from asking import everything_told
from azure.storage.blob.aio import ContainerClient
from stores import ACCOUNT_KEY, AWS_SECRET, connection_to, pieces, s3

from retoma.errors import ConfigurationError, NotFound
from retoma.providers import (
    Blob,
    BlobStore,
    ProviderDown,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    RateLimited,
    RequestRejected,
)
from retoma.providers.azure_blob import AzureBlobs
from retoma.providers.folder import FolderBlobs
from retoma.providers.s3 import S3Blobs
from retoma.testing.wire import Fault, Served

pytestmark = pytest.mark.timeout(600)  # the first time, Azurite is installed

MEGABYTE = 1 << 20
_numbers = count(1)


@pytest.fixture
def folder(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "blobs")


@pytest.fixture
async def azure(azurite_url: str) -> AsyncIterator[AzureBlobs]:
    container = f"container-{next(_numbers)}"
    async with ContainerClient.from_connection_string(connection_to(azurite_url), container) as client:
        await client.create_container()
    store = AzureBlobs(connection=connection_to(azurite_url), container=container)
    yield store
    await store.aclose()


@pytest.fixture
def bucket(s3_url: str) -> str:
    name = f"bucket-{next(_numbers)}"
    s3(s3_url, "PUT", f"/{name}")
    return name


def s3_at(url: str, bucket: str, **more: Any) -> S3Blobs:
    return S3Blobs(bucket, key="AKIAOURS", secret=AWS_SECRET, region="us-east-1", endpoint=url, **more)


@pytest.fixture
def amazon(s3_url: str, bucket: str) -> S3Blobs:
    return s3_at(s3_url, bucket, prefix="ours")


@pytest.fixture(params=["folder", "azure", "amazon"])
def store(request: pytest.FixtureRequest) -> BlobStore:
    found: BlobStore = request.getfixturevalue(request.param)
    return found


async def content_of(store: BlobStore, name: str) -> bytes:
    async with store.open(name) as content:
        return b"".join([piece async for piece in content])


# — the contract —


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [b"x"],
        ["ação 🏠".encode(), b"", b"\x00\xff" * 1000],
        [b"a" * MEGABYTE] * 4,
        [b"b" * (4 * MEGABYTE + 1)],
        [bytes([number]) * 700_001 for number in range(30)],
    ],
    ids=["nothing", "empty", "one byte", "odd bytes", "one block", "a block and a byte", "21 MB in pieces"],
)
async def test_what_is_put_is_what_is_read(store: BlobStore, parts: list[bytes]) -> None:
    whole = b"".join(parts)

    stored = await store.put("documents/3f/report.pdf", pieces(*parts))

    assert isinstance(store, BlobStore)
    assert stored == Blob(name="documents/3f/report.pdf", size=len(whole), sha256=hashlib.sha256(whole).hexdigest())
    assert await content_of(store, "documents/3f/report.pdf") == whole


@pytest.mark.parametrize(
    ("start", "length"), [(0, 1), (0, None), (5, 10), (MEGABYTE - 3, 7), (MEGABYTE, MEGABYTE), (2 * MEGABYTE + 5, None)]
)
async def test_a_part_of_a_blob_is_read_alone(store: BlobStore, start: int, length: int | None) -> None:
    whole = bytes(number % 251 for number in range(2 * MEGABYTE + 10))
    await store.put("a", pieces(whole))

    async with store.open("a", start=start, length=length) as content:
        read = b"".join([piece async for piece in content])

    assert read == whole[start : None if length is None else start + length]


async def test_a_blob_is_there_until_it_is_deleted(store: BlobStore) -> None:
    assert not await store.exists("a")
    await store.put("a", pieces(b"1"))
    assert await store.exists("a")
    assert await store.delete("a")
    assert not await store.exists("a")
    assert not await store.delete("a")


async def test_what_is_not_there_is_not_found(store: BlobStore) -> None:
    await store.put("somewhere/a", pieces(b"1"))

    with pytest.raises(NotFound, match="nowhere/a"):
        await content_of(store, "nowhere/a")


async def test_a_blob_is_replaced_as_a_whole(store: BlobStore) -> None:
    await store.put("a", pieces(b"the first, and longer"))
    await store.put("a", pieces(b"the second"))

    assert await content_of(store, "a") == b"the second"


async def test_what_is_too_long_is_refused_and_leaves_nothing(store: BlobStore) -> None:
    with pytest.raises(RequestRejected, match="longer than the 100 bytes") as caught:
        await store.put("a", pieces(b"x" * 60, b"x" * 41), most=100)

    assert caught.value.status == 413
    assert not await store.exists("a")


async def test_what_is_much_too_long_is_refused_and_what_was_there_stays(store: BlobStore) -> None:
    await store.put("a", pieces(b"as it was"))

    with pytest.raises(RequestRejected):
        await store.put("a", pieces(*[b"x" * MEGABYTE] * 20), most=18 * MEGABYTE)

    assert await content_of(store, "a") == b"as it was"


async def test_exactly_as_long_as_allowed_is_allowed(store: BlobStore) -> None:
    assert (await store.put("a", pieces(b"x" * 100), most=100)).size == 100


@pytest.mark.parametrize("error", [RuntimeError("upload broke"), FileNotFoundError("theirs"), TimeoutError("theirs")])
async def test_a_source_that_fails_leaves_nothing_and_its_error_is_its_own(store: BlobStore, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await store.put("a", pieces(b"x" * 6 * MEGABYTE, error))

    assert caught.value is error
    assert not await store.exists("a")


async def test_a_put_that_is_cancelled_leaves_nothing(store: BlobStore) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * MEGABYTE
        begun.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(store.put("a", endless()))
    await begun.wait()
    putting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await putting
    assert not await store.exists("a")


async def test_of_two_who_write_at_once_one_wins_as_a_whole(store: BlobStore) -> None:
    ones, twos = ([letter * MEGABYTE] * 10 for letter in (b"1", b"2"))

    async def slowly(parts: list[bytes]) -> AsyncIterator[bytes]:
        for part in parts:
            await asyncio.sleep(0.01)
            yield part

    outcomes = await asyncio.gather(store.put("a", slowly(ones)), store.put("a", slowly(twos)), return_exceptions=True)

    assert await content_of(store, "a") in (b"".join(ones), b"".join(twos))
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, ProviderDown) for each in failed), "who lost may try again"
    assert len(failed) < 2


async def test_a_reader_never_sees_two_contents_mixed(store: BlobStore) -> None:
    await store.put("a", pieces(*[b"1" * MEGABYTE] * 20))
    read = b""

    async with store.open("a") as content:
        read += await anext(content)
        await store.put("a", pieces(*[b"2" * MEGABYTE] * 20))
        with suppress(ProviderDown):  # when the store cannot give the rest of the old one
            async for piece in content:
                read += piece

    assert set(read) == {ord("1")}


BAD_NAMES = ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".hidden", "a/.hidden", "a.", "a\\b", "a b"]
BAD_NAMES += ["a\0b", "a\nb", "ção", "a%2e%2e", "a?b", "a#b", "a:b", "x" * 201, "/".join(["x" * 100] * 9), "~/a*"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name[:12]))
async def test_a_name_that_leads_elsewhere_is_refused_everywhere(store: BlobStore, name: str) -> None:
    with pytest.raises(RequestRejected, match="name"):
        await store.put(name, pieces(b"1"))
    with pytest.raises(RequestRejected, match="name"):
        await content_of(store, name)
    with pytest.raises(RequestRejected, match="name"):
        await store.delete(name)
    with pytest.raises(RequestRejected, match="name"):
        await store.exists(name)


@pytest.mark.parametrize("name", ["a", "a.b", "A-1_2=3@4+5", "x" * 200, "a/b/c/d.tar.gz", "a..b"])
async def test_a_name_of_our_own_is_taken_everywhere(store: BlobStore, name: str) -> None:
    await store.put(name, pieces(b"1"))

    assert await content_of(store, name) == b"1"


# — the folder —


def everything_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_nothing_half_done_stays_in_the_folder(folder: FolderBlobs, tmp_path: Path) -> None:
    await folder.put("a", pieces(b"1"))
    with pytest.raises(RequestRejected):
        await folder.put("b", pieces(b"12"), most=1)
    with pytest.raises(RuntimeError):
        await folder.put("c", pieces(b"12", RuntimeError("broke")))

    assert everything_in(tmp_path / "blobs") == ["a"]


WRITER = """
import asyncio, sys
from pathlib import Path
from retoma.providers.folder import FolderBlobs

async def endless():
    while True:
        yield b"x" * 100_000
        print("piece", flush=True)

asyncio.run(FolderBlobs(Path(sys.argv[1])).put("a", endless()))
"""


async def test_a_writer_that_is_killed_leaves_no_blob_and_its_part_is_swept(
    folder: FolderBlobs, tmp_path: Path
) -> None:
    root = tmp_path / "blobs"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(2):  # one piece is always held back
            assert writer.stdout.readline() == b"piece\n"
        writer.send_signal(signal.SIGKILL)
    assert not await folder.exists("a")
    (part,) = (root / ".parts").iterdir()
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(part, (long_ago, long_ago))

    await folder.put("b", pieces(b"1"))

    assert everything_in(root) == ["b"]


SHORT = """
import asyncio, sys
from pathlib import Path
from retoma.providers.folder import FolderBlobs

async def content(number):
    yield f"{number} ".encode() * 20_000

async def keep(folder, number):
    await folder.put(f"short/{number}", content(number))
    print(number, flush=True)

async def main():
    folder = FolderBlobs(Path(sys.argv[1]))
    for first in range(0, 30_000, 30):
        await asyncio.gather(*(keep(folder, number) for number in range(first, first + 30)))

asyncio.run(main())
"""


@pytest.mark.parametrize("kept", [1, 35, 100])
def test_of_short_files_that_are_kept_together_a_kill_leaves_each_whole_or_none(tmp_path: Path, kept: int) -> None:
    root = tmp_path / "blobs"
    with subprocess.Popen([sys.executable, "-c", SHORT, str(root)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(kept)]
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.readlines()

    there = {path.name: path.read_bytes() for path in (root / "short").iterdir()}
    assert {name for name, content in there.items() if content != f"{name} ".encode() * 20_000} == set()
    assert {line.strip() for line in told} <= there.keys(), "what was told to be kept is there"


async def test_a_part_that_somebody_writes_now_is_left_alone(folder: FolderBlobs, tmp_path: Path) -> None:
    ours = tmp_path / "blobs" / ".parts" / "somebody"
    ours.parent.mkdir(parents=True)
    ours.write_bytes(b"half")

    await folder.put("b", pieces(b"1"))

    assert ours.read_bytes() == b"half"


async def test_folders_that_somebody_tidied_away_are_made_again(folder: FolderBlobs, tmp_path: Path) -> None:
    await folder.put("year/a", pieces(b"1"))
    shutil.rmtree(tmp_path / "blobs")

    await folder.put("year/b", pieces(b"2", b"3"))

    assert everything_in(tmp_path / "blobs") == ["year/b"]
    assert (tmp_path / "blobs" / "year" / "b").read_bytes() == b"23"


async def test_of_a_folder_that_vanished_nothing_is_missing_and_nothing_deleted(
    folder: FolderBlobs, tmp_path: Path
) -> None:
    await folder.put("year/a", pieces(b"1"))
    (tmp_path / "blobs").rename(tmp_path / "elsewhere")
    (tmp_path / "blobs").mkdir()  # as a disk that is not mounted leaves it

    with pytest.raises(ProviderDown, match="is its disk mounted"):
        await content_of(folder, "year/a")
    with pytest.raises(ProviderDown, match="is its disk mounted"):
        await folder.delete("year/a")

    (tmp_path / "blobs").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "blobs")
    assert await content_of(folder, "year/a") == b"1"
    assert await folder.delete("year/a")
    assert not await folder.delete("year/a")


async def test_a_link_out_of_the_folder_is_not_followed(folder: FolderBlobs, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "out").symlink_to(tmp_path / "secret")

    with pytest.raises(RequestRejected, match="leads out"):
        await folder.put("out/a", pieces(b"1"))

    assert list((tmp_path / "secret").iterdir()) == []


async def test_one_blob_cannot_be_the_folder_of_another(folder: FolderBlobs) -> None:
    await folder.put("a", pieces(b"1"))

    with pytest.raises(RequestRejected, match="folder of another"):
        await folder.put("a/b", pieces(b"2"))

    assert not await folder.delete("a/b")
    assert await content_of(folder, "a") == b"1"


async def test_one_of_many_short_files_that_cannot_be_kept_does_not_spoil_the_others(
    folder: FolderBlobs, tmp_path: Path
) -> None:
    await folder.put("year/day/a", pieces(b"1"))
    names = [f"year/{number}" for number in range(30)]

    became = await asyncio.gather(
        *(folder.put(name, pieces(name.encode())) for name in [*names[:15], "year/day", *names[15:]]),
        return_exceptions=True,
    )

    (refused,) = [each for each in became if isinstance(each, BaseException)]
    assert isinstance(refused, RequestRejected)
    assert "year/day" in str(refused)
    assert everything_in(tmp_path / "blobs") == sorted(["year/day/a", *names])
    assert [await content_of(folder, name) for name in names] == [name.encode() for name in names]


async def test_short_files_whose_senders_went_away_are_there_in_full_or_not_at_all(
    folder: FolderBlobs, tmp_path: Path
) -> None:
    content = b"x" * 100_000
    sending = [asyncio.create_task(folder.put(f"a/{number}", pieces(content))) for number in range(60)]
    for turn in range(1, 30):
        await asyncio.sleep(0)
        sending[2 * turn].cancel()
    became = await asyncio.gather(*sending, return_exceptions=True)
    await folder.put("a/last", pieces(b"1"))  # by then nobody writes any more

    kept = {path.name: path.read_bytes() for path in (tmp_path / "blobs" / "a").iterdir() if path.name != "last"}
    assert set(kept.values()) == {content}
    assert {str(number) for number, each in enumerate(became) if not isinstance(each, BaseException)} <= set(kept)
    assert [path for path in everything_in(tmp_path / "blobs") if path.startswith(".parts")] == []


FULL = """
import asyncio, resource, sys
from pathlib import Path
from retoma.providers import ProviderDown
from retoma.providers.folder import FolderBlobs

async def much():
    yield b"x" * 2_000_000

resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    asyncio.run(FolderBlobs(Path(sys.argv[1])).put("a", much()))
except ProviderDown as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_is_told_and_nothing_stays(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)

    assert "File too large. Make room" in told.stdout
    assert everything_in(tmp_path) == []


# — Azure —


async def test_a_container_that_does_not_exist_is_told(azurite_url: str) -> None:
    store = AzureBlobs(connection=connection_to(azurite_url), container="nowhere")

    with pytest.raises(ProviderRefused, match="container does not exist"):
        await store.put("a", pieces(b"1"))
    with pytest.raises(ProviderRefused, match="container does not exist"):
        await content_of(store, "a")

    await store.aclose()


async def test_a_wrong_account_key_is_refused_and_not_repeated(
    azurite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "d3Jvbmctc2VjcmV0"
    store = AzureBlobs(connection=connection_to(azurite_url, key=wrong), container="ours")

    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderRefused) as caught:
        await store.exists("a")

    await store.aclose()
    assert wrong not in everything_told(caught.value)
    assert wrong not in caplog.text


def test_a_connection_string_without_a_key_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="AccountKey") as caught:
        AzureBlobs(connection="AccountName=ours;Key=hidden")

    assert "hidden" not in str(caught.value)


# — S3 —


async def test_nothing_half_done_stays_in_the_bucket(amazon: S3Blobs, s3_url: str, bucket: str) -> None:
    await amazon.put("a", pieces(b"1"))
    with pytest.raises(RequestRejected):
        await amazon.put("b", pieces(*[b"x" * MEGABYTE] * 20), most=18 * MEGABYTE)
    with pytest.raises(RuntimeError):
        await amazon.put("c", pieces(b"x" * 9 * MEGABYTE, RuntimeError("broke")))

    assert "<Key>ours/a</Key>" in s3(s3_url, "GET", f"/{bucket}")
    assert s3(s3_url, "GET", f"/{bucket}").count("<Key>") == 1
    assert "<Upload>" not in s3(s3_url, "GET", f"/{bucket}?uploads")


async def test_a_bucket_that_does_not_exist_is_told(s3_url: str) -> None:
    store = s3_at(s3_url, "nowhere")

    with pytest.raises(ProviderRefused, match="bucket does not exist"):
        await store.put("a", pieces(b"1"))
    with pytest.raises(ProviderRefused, match="bucket does not exist"):
        await content_of(store, "a")


# — what goes wrong on the way —

FAULTS: dict[str, tuple[Fault, type[ProviderError]]] = {
    "403": (Fault(kind="answer", status=403, body="<Error><Code>AccessDenied</Code></Error>"), ProviderRefused),
    "400": (Fault(kind="answer", status=400, body="<Error><Code>Bad</Code></Error>"), RequestRejected),
    "429": (Fault(kind="answer", status=429, headers={"retry-after": "5"}), RateLimited),
    "500": (Fault(kind="answer", status=500, body="<Error><Code>InternalError</Code></Error>"), ProviderDown),
    "503": (Fault(kind="answer", status=503), ProviderDown),
    "hang": (Fault(kind="hang"), ProviderTimeout),
    "closed without a word": (Fault(kind="vanish"), ProviderDown),
}


@pytest.fixture(params=["azure", "s3"])
async def far_store(request: pytest.FixtureRequest, services: Served) -> AsyncIterator[Callable[[float], BlobStore]]:
    """A store whose service says what it is told to say, made with the seconds it may take."""
    if request.param == "s3":
        yield lambda seconds: s3_at(services.url, "bucket", timeout=seconds)
        return
    made: list[AzureBlobs] = []

    def make(seconds: float) -> AzureBlobs:
        made.append(AzureBlobs(connection=connection_to(services.url), container="ours", timeout=seconds))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_of_a_store_is_told_for_what_it_is(
    far_store: Callable[[float], BlobStore], services: Served, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    fault, kind = FAULTS[name]
    store = far_store(1.0 if name == "hang" else 30.0)
    services.tell(Fault(**{each: getattr(fault, each) for each in Fault.__slots__} | {"times": None}))

    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderError) as caught:
        await store.put("a", pieces(b"1"))

    assert type(caught.value) is kind
    told = everything_told(caught.value) + caplog.text
    assert ACCOUNT_KEY not in told
    assert AWS_SECRET not in told
    # A block may be sent twice: aiohttp does that with what is idempotent, when nobody answers.
    assert len(services.heard()) == (2 if isinstance(store, AzureBlobs) and name == "closed without a word" else 1)


@pytest.mark.parametrize("kind", ["cut", "slow"])
async def test_a_read_that_breaks_off_is_never_taken_for_the_whole(
    far_store: Callable[[float], BlobStore], services: Served, kind: Literal["cut", "slow"]
) -> None:
    assert len(await content_of(far_store(30), "whole")) == 100_000
    services.tell(Fault(kind=kind, seconds=5, times=None))

    with pytest.raises(ProviderDown) as caught:
        await content_of(far_store(1.0 if kind == "slow" else 30.0), "whole")

    assert caught.value.retryable
