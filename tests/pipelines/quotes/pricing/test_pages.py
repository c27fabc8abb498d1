"""Pages of strangers: no address leads inside, nothing is too large or too slow, and what was seen is kept."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import pytest

from retoma.pipelines.quotes.ports import Refusal
from retoma.pipelines.quotes.pricing import fetch as fetching
from retoma.pipelines.quotes.pricing import screenshots
from retoma.pipelines.quotes.pricing.fetch import Fetched, PageRefused, fetch, is_public
from retoma.pipelines.quotes.pricing.pages import Pages, decoded
from retoma.providers import public_address
from retoma.providers.folder import FolderBlobs

PAGE = b"<html><head><title>Cadeira</title></head><body><p class=price>R$ 1.299,90</p></body></html>"
SHOP = "http://lojaveredas.com.br.test"


@asynccontextmanager
async def shop(answer: Callable[[str], bytes]) -> AsyncIterator[tuple[str, int]]:
    """A server that gives *answer* to each request head."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.write(answer(head))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield "127.0.0.1", server.sockets[0].getsockname()[1]
    finally:
        server.close()


def ok(body: bytes = PAGE, *headers: str, status: str = "200 OK", kind: str = "text/html") -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        *headers,
        "connection: close",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def refusal(url: str, catalogue: tuple[str, int] | None = None, *, timeout: float = 10) -> PageRefused:
    with pytest.raises(PageRefused) as caught:
        await fetch(url, timeout=timeout, catalogue=catalogue)
    return caught.value


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "::1", "::", "fe80::1", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::1", "::7f00:1", "nothing",
    ],
)  # fmt: skip
def test_an_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "200.160.2.3", "2804:10::1", "::ffff:8.8.8.8"])
def test_an_address_outside_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0x7f000001/", "http://2130706433/",
        "http://169.254.169.254/latest/meta-data/", "http://[::ffff:127.0.0.1]/", "ftp://loja.com.br/",
        "file://localhost/etc/hosts", "http://user:key@loja.com.br/", "http://loja.com.br:8080/", "http://loja.com.br:22/",
        "javascript:alert(1)", "http://", "http://[", "//loja.com.br", "http://127.1/",
    ],
)  # fmt: skip
async def test_an_address_that_leads_inside_is_not_opened(url: str) -> None:
    assert (await refusal(url)).reason is Refusal.NETWORK


async def test_a_name_that_means_a_private_machine_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolved(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 80)) for each in ("200.160.2.3", "10.0.0.7")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)

    assert "10.0.0.7" in (await refusal("http://loja.com.br/p/1")).detail


async def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = []

    def answer(head: str) -> bytes:
        heads.append(head)
        return ok()

    async with shop(answer) as (host, port):
        names = iter([[host], ["200.160.2.3"]])

        async def addresses(*_: object) -> list[str]:
            return next(names)

        # The name means a machine of ours once, and would mean another on a second look.
        monkeypatch.setattr(public_address, "addresses_of", addresses)
        monkeypatch.setattr(public_address, "is_public", lambda _: True)
        monkeypatch.setitem(public_address.PORTS, "http", port)
        page = await fetch("http://loja.com.br/p/1?a=b", timeout=120)

    assert page.address == host
    assert heads[0].startswith("GET /p/1?a=b HTTP/1.1\r\n")
    assert "host: loja.com.br\r\n" in heads[0].lower()
    assert next(names) == ["200.160.2.3"]


async def test_the_catalogue_is_opened_by_the_names_of_its_shops_alone() -> None:
    async with shop(lambda _: ok()) as place:
        page = await fetch(f"{SHOP}/p/1", timeout=120, catalogue=place)

        assert page.content == PAGE
        assert (await refusal(f"http://127.0.0.1:{place[1]}/", place)).reason is Refusal.NETWORK
    assert (await refusal(f"{SHOP}/p/1")).reason is Refusal.NETWORK
    assert (await refusal(f"{SHOP}/p/1", ("10.0.0.1", 80))).reason is Refusal.NETWORK


async def test_a_redirect_inside_is_not_followed() -> None:
    async with shop(lambda _: ok(b"", "location: http://169.254.169.254/", status="302 Found")) as place:
        assert (await refusal(f"{SHOP}/p/1", place)).reason is Refusal.NETWORK


async def test_a_redirect_is_followed_and_told() -> None:
    def answer(head: str) -> bytes:
        return ok() if head.startswith("GET /new ") else ok(b"", "location: /new", status="301 Moved")

    async with shop(answer) as place:
        assert (await fetch(f"{SHOP}/old", timeout=120, catalogue=place)).url == f"{SHOP}/new"


async def test_redirects_without_end_are_given_up() -> None:
    async with shop(lambda _: ok(b"", "location: /again", status="302 Found")) as place:
        assert (await refusal(f"{SHOP}/p/1", place)).reason is Refusal.PAGE_LOAD


BOMB = gzip.compress(b"a" * (fetching.LARGEST * 20))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ok(b"a" * (fetching.LARGEST + 1)), Refusal.PAGE_LOAD),
        (ok(BOMB, "content-encoding: gzip"), Refusal.PAGE_LOAD),
        (ok(b"no gzip", "content-encoding: gzip"), Refusal.PAGE_LOAD),
        (ok(b"x", "content-encoding: br"), Refusal.PAGE_LOAD),
        (ok(kind="application/pdf"), Refusal.PAGE_LOAD),
        (ok(status="404 Not Found"), Refusal.PAGE_LOAD),
        (ok(status="403 Forbidden"), Refusal.BLOCKED_BY_SITE),
        (ok(status="429 Too Many Requests"), Refusal.BLOCKED_BY_SITE),
        (b"garbage\r\n\r\n", Refusal.NETWORK),
        (b"", Refusal.NETWORK),
    ],
    ids=["large", "bomb", "damaged", "packed", "pdf", "404", "403", "429", "garbage", "silence"],
)
async def test_an_answer_that_is_no_page_has_its_reason(answer: bytes, reason: Refusal) -> None:
    async with shop(lambda _: answer) as place:
        assert (await refusal(f"{SHOP}/p/1", place)).reason is reason


async def test_a_page_that_never_ends_is_given_up() -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)

    late = await refusal(f"{SHOP}/p/1", ("127.0.0.1", server.sockets[0].getsockname()[1]), timeout=0.2)

    await ended.wait()
    server.close()
    assert late.reason is Refusal.TIMEOUT


async def test_a_packed_page_is_unpacked() -> None:
    async with shop(lambda _: ok(gzip.compress(PAGE), "content-encoding: gzip")) as place:
        assert (await fetch(f"{SHOP}/p/1", timeout=120, catalogue=place)).content == PAGE


# — evidence —


async def test_what_was_read_is_kept_with_hour_and_hash(tmp_path: Path) -> None:
    now = datetime(2026, 11, 17, 22, 30, tzinfo=UTC)
    async with shop(lambda _: ok()) as place:
        pages = Pages(blobs=FolderBlobs(root=tmp_path), catalogue=place, clock=lambda: now)
        read = await pages.read(f"{SHOP}/p/1", timeout=120)

    assert str(read.price) == "1299.90"
    assert read.evidence
    assert (read.evidence.captured_at, read.evidence.url) == (now, f"{SHOP}/p/1")
    assert read.evidence.sha256 == hashlib.sha256(PAGE).hexdigest()
    async with pages.blobs.open(read.evidence.blob) as content:
        assert b"".join([each async for each in content]) == PAGE


async def test_a_page_that_is_refused_is_kept_too(tmp_path: Path) -> None:
    async with shop(lambda _: ok(b"<p>nada</p>")) as place:
        read = await Pages(blobs=FolderBlobs(root=tmp_path), catalogue=place).read(f"{SHOP}/p/1", timeout=120)

    assert read.refused is Refusal.EXTRACTION_FAILED
    assert read.evidence is not None


async def test_a_shop_that_redirects_abroad_is_refused(tmp_path: Path) -> None:
    def answer(head: str) -> bytes:
        moved = ok(b"", "location: http://bigstore.com.test/p/1", status="302 Found")
        return ok() if "bigstore" in head.lower() else moved

    async with shop(answer) as place:
        read = await Pages(blobs=FolderBlobs(root=tmp_path), catalogue=place).read(f"{SHOP}/p/1", timeout=120)

    assert read.refused is Refusal.FOREIGN_DOMAIN


async def test_the_answer_of_a_service_is_evidence(tmp_path: Path) -> None:
    pages = Pages(blobs=FolderBlobs(root=tmp_path))

    kept = await pages.keep('{"a": 1}', url="https://service.example/", kind="application/json")
    again = await pages.keep('{"a": 1}', url="https://service.example/", kind="application/json")

    assert kept.sha256 == again.sha256 == hashlib.sha256(b'{"a": 1}').hexdigest()
    assert kept.without_screenshot


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        ("preço".encode(), None, "preço"),
        ("preço".encode("latin-1"), "iso-8859-1", "preço"),
        ("preço".encode("latin-1"), None, "preço"),
        ("preço".encode("latin-1"), "unknown-8", "preço"),
        (b"\x81\x8d", None, "\ufffd\ufffd"),
    ],
)
def test_a_page_is_decoded_as_it_is_meant(content: bytes, charset: str | None, text: str) -> None:
    assert decoded(Fetched(url=SHOP, content=content, charset=charset, address="")) == text


# — pictures —


async def test_without_a_browser_the_evidence_says_so() -> None:
    with pytest.raises(screenshots.NoScreenshot, match="no Chromium"):
        await screenshots.take(PAGE, browser=None)


async def test_a_browser_that_does_not_start_is_told() -> None:
    with pytest.raises(screenshots.NoScreenshot, match="does not start"):
        await screenshots.take(PAGE, browser=Path("/nowhere/chromium"))


async def test_however_many_pages_want_a_picture_only_a_few_browsers_run_at_once(tmp_path: Path) -> None:
    """The browser is a script that says when it comes and goes; the most that were there are counted from that."""
    said = tmp_path / "said"
    browser = tmp_path / "chromium"
    browser.write_text(
        f'#!/bin/sh\necho + >> {said}\nfor each; do case "$each" in --screenshot=*) echo png > "${{each#*=}}";; esac;'
        f" done\nsleep 0.1\necho - >> {said}\n"
    )
    browser.chmod(0o755)

    pictures = await asyncio.gather(*(screenshots.take(PAGE, browser=browser, timeout=60) for _ in range(8)))

    running = list(accumulate(1 if line == "+" else -1 for line in said.read_text().split()))
    assert len(pictures) == 8
    assert max(running) <= screenshots.AT_ONCE


@pytest.mark.timeout(600)
async def test_a_picture_is_taken_of_the_saved_page_and_reaches_nobody() -> None:
    browser = screenshots.find_browser()
    if browser is None:
        pytest.skip("There is no Chromium on this machine.")
    reached = []

    def answer(head: str) -> bytes:
        reached.append(head)
        return ok()

    async with shop(answer) as (host, port):
        hostile = f'<img src="http://{host}:{port}/x"><iframe src="file://localhost/etc/hosts"></iframe>'
        hostile += (
            f'<link rel="stylesheet" href="http://{host}:{port}/y"><script>fetch("http://{host}:{port}")</script>'
        )
        picture = await screenshots.take(PAGE + hostile.encode(), browser=browser, timeout=120)

    assert picture.startswith(b"\x89PNG")
    assert reached == []
