"""Pictures of pages, by a Chromium of this machine that sees nothing but the bytes that were saved.

The browser opens the saved page and not the shop's: the picture shows the same evidence as the file, and a hostile page
reaches nobody. All its requests go to a proxy of ours that knows one address; a policy forbids scripts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from weakref import WeakKeyDictionary

from retoma.system import tempfiles

WIDTH = 1280
HEIGHT = 1400
"""The upper part of a page, in points."""
AT_ONCE = 2
"""Browsers of one process at the same time. Each takes a core and a hundred megabytes; the others wait."""
NO_BROWSER = "There is no Chromium on this machine."
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_PAGE = "http://evidence.invalid/"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; sandbox"
_LONGEST_HEAD = 16_384

_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class NoScreenshot(Exception):
    """Why there is no picture, in a sentence."""


def find_browser() -> Path | None:
    """The Chromium of this machine."""
    found = next((place for name in _NAMES if (place := shutil.which(name))), None)
    return Path(found) if found else None


async def take(html: bytes, *, browser: Path | None, timeout: float = 30.0) -> bytes:
    """A PNG of the upper part of *html*. Waiting for a place is not part of *timeout*."""
    if browser is None:
        raise NoScreenshot(NO_BROWSER)
    places = _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    async with places:
        return await _taken(html, browser, timeout)


async def _taken(html: bytes, browser: Path, timeout: float) -> bytes:
    with tempfiles.folder() as folder:
        picture = folder / "page.png"
        async with _proxy(html) as port:
            await _run(browser, folder, picture, port, timeout)
        if not picture.is_file() or not picture.stat().st_size:
            raise NoScreenshot("Chromium took no picture of the page.")
        return picture.read_bytes()


async def _run(browser: Path, folder: Path, picture: Path, port: int, timeout: float) -> None:
    arguments = [
        "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
        f"--user-data-dir={folder / 'profile'}",
        f"--proxy-server=http://127.0.0.1:{port}", "--proxy-bypass-list=<-loopback>",
        f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}",
    ]  # fmt: skip
    if os.geteuid() == 0:  # its own sandbox refuses to work for root
        arguments.append("--no-sandbox")
    try:
        process = await asyncio.create_subprocess_exec(
            browser,
            *arguments,
            _PAGE,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise NoScreenshot(f"Chromium does not start: {error.strerror}.") from None
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
        raise NoScreenshot(f"Chromium took longer than {timeout:g} s.") from None
    finally:
        # The whole group: its renderers would stay.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@contextlib.asynccontextmanager
async def _proxy(html: bytes) -> AsyncIterator[int]:
    """The port of a proxy that gives *html* for one address, and nothing for any other."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            is_page = head.startswith(f"GET {_PAGE} ".encode())
            body = html if is_page else b""
            writer.write(
                f"HTTP/1.1 {'200 OK' if is_page else '403 Forbidden'}\r\ncontent-type: text/html; charset=utf-8\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n"
                f"content-security-policy: {_POLICY}\r\n\r\n".encode()
            )
            writer.write(body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=_LONGEST_HEAD)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
