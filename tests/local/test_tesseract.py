"""The real tesseract, in the child that reads: it reads Portuguese there, and a program in its place gets nothing."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from retoma.bench.evaluation.accuracy import character_errors
from retoma.isolate import configure, shutdown
from retoma.providers.local import LocalExtractor

from .test_ocr import TEXT, Image, picture, scanned_pdf, without_rapidocr

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="only Linux has walls"), pytest.mark.timeout(600)]
pytestmark.append(pytest.mark.usefixtures(without_rapidocr.__name__))

LANGUAGES = {"por", "eng"}
STAND_IN = """#!{python}
import json, os, socket, subprocess, sys
from pathlib import Path
if sys.argv[1:] == ["--list-langs"]: print("eng\\npor"); sys.exit()

def tried(attempt):
    try: return attempt() or "done"
    except OSError as error: return ""

place, port, parent = {place!r}, {port}, {parent}
for leave in ("os.setpgid(0, 0)", "os.setsid()", "print()"):
    program = f"import os, time; {{leave}}; time.sleep(6222)  # {token}"
    subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdout=-3, stderr=-3)
subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(6222)  # {token}"], stdout=-3, stderr=-3)
print(json.dumps(dict(
    file=tried(lambda: Path(place, "secret").read_text()),
    environment=tried(lambda: Path(f"/proc/{{parent}}/environ").read_text()),
    own=json.dumps(dict(os.environ)),
    connected=tried(lambda: socket.create_connection(("127.0.0.1", port), 5).close()),
    written=tried(lambda: Path(place, "written").write_text("x") and None),
)))
"""


def languages() -> set[str]:
    program = shutil.which("tesseract")
    if program is None:
        return set()
    return set(subprocess.run([program, "--list-langs"], capture_output=True, text=True, check=False).stdout.split())


installed = pytest.mark.skipif(
    not languages() >= LANGUAGES,
    reason="no tesseract with Portuguese and English (tools/system-packages tesseract-ocr tesseract-ocr-por, as root)",
)


@pytest.fixture(autouse=True)
def one_child() -> Iterator[None]:
    """A new one for each test, which sees the PATH of that test."""
    shutdown()
    configure(children=1)
    yield
    shutdown()
    configure(children=os.cpu_count() or 1)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that any account may enter, as the folder of a program is."""
    folder = Path(tempfile.mkdtemp(prefix="retoma-ocr-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def eventually(true: Callable[[], object], seconds: float = 90) -> object:
    """What *true* says once it says something."""

    async def asked() -> object:
        async with asyncio.timeout(seconds):
            while not (found := true()):
                await asyncio.sleep(0.01)
        return found

    return asyncio.run(asked())


def at_work() -> psutil.Process | None:
    """The tesseract that reads a picture for this process."""
    for each in psutil.Process().children(recursive=True):
        try:
            if each.name() == "tesseract" and "stdout" in each.cmdline():
                return each
        except psutil.Error:
            pass
    return None


def of(token: str) -> list[int]:
    """The processes of whoever has left some with *token*."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.status() != psutil.STATUS_ZOMBIE and any(token in word for word in each.cmdline()):
                found.append(each.pid)
        except psutil.Error:
            pass
    return found


async def caught(file: Path) -> tuple[asyncio.Task[object], psutil.Process]:
    """A reading of *file*, and its tesseract, which was stopped in the middle."""
    reading: asyncio.Task[object] = asyncio.create_task(LocalExtractor().extract(file, kind="png", timeout=250))
    while (process := at_work()) is None:
        assert not reading.done(), "it was read before it could be stopped"
        await asyncio.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    return reading, process


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A page full of text, over which tesseract takes a while."""
    file = tmp_path / "page.png"
    file.write_bytes(picture(TEXT))
    with Image.open(file) as strip:
        page = Image.new("L", (strip.width, strip.height * 12), 255)
        for number in range(12):
            page.paste(strip, (0, number * strip.height))
    page.save(file)
    return file


@installed
async def test_tesseract_reads_portuguese_in_a_picture_and_in_a_scanned_pdf(tmp_path: Path) -> None:
    for content, kind, reader in ((picture(TEXT), "png", "tesseract"), (scanned_pdf(TEXT), "pdf", "tesseract")):
        file = tmp_path / f"scan.{kind}"
        file.write_bytes(content)

        reading = await LocalExtractor().extract(file, kind=kind, timeout=250)

        assert reading.reader.endswith(reader)
        assert [page.source for page in reading.pages] == ["ocr"]
        assert character_errors(TEXT, reading.text) < 0.02


@installed
async def test_tesseract_stands_behind_the_same_walls_as_the_child_that_asks_it(large: Path) -> None:
    reading, process = await caught(large)

    said = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    process.send_signal(signal.SIGCONT)
    read = await reading

    assert (said["NoNewPrivs"], said["Seccomp"], said["CapEff"]) == ("1", "2", "0" * 16)
    assert getattr(read, "text", "").count("CONTRATO") == 12, "it was the real one, and it went on"


@installed
async def test_tesseract_ends_with_the_reading_that_is_given_up(large: Path) -> None:
    reading, process = await caught(large)

    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading

    await asyncio.to_thread(process.wait, 90)


def test_a_program_in_the_place_of_tesseract_is_shut_in_and_leaves_nothing_behind(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hush, token = secrets.token_hex(16), secrets.token_hex(16)
    kept = place / "kept"
    kept.mkdir()
    (kept / "secret").write_text(hush)
    monkeypatch.setenv("PLANTED_PASSWORD", hush)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program = place / "bin/tesseract"
        program.parent.mkdir()
        program.write_text(
            STAND_IN.format(
                python=sys.executable,
                place=str(kept),
                port=listening.getsockname()[1],
                parent=os.getpid(),
                token=token,
            )
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        monkeypatch.setenv("PATH", str(program.parent))
        file = tmp_path / "scan.png"
        file.write_bytes(picture(TEXT))

        reading = asyncio.run(LocalExtractor().extract(file, kind="png", timeout=250))
        started = of(token)

    told = json.loads(reading.text)
    assert reading.reader == "tesseract"
    assert hush not in reading.text
    assert {name: told[name] for name in ("file", "connected", "written")} == dict.fromkeys(
        ("file", "connected", "written"), ""
    )
    assert not (kept / "written").exists()
    assert started, "it did try"
    shutdown()
    assert eventually(lambda: not of(token)), "what it started has ended with the child"
