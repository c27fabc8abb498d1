"""Blobs in a folder are for their account alone: whatever the umask, also as root; what was open before is closed."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import pieces

from retoma.providers import BlobStore
from retoma.providers.factory import providers_from
from retoma.providers.folder import FolderBlobs

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

LARGE = b"x" * (3 << 20)
KEEP = """
import asyncio, os, sys
os.umask(int(sys.argv[2], 8))
from retoma.providers import BlobStore
from retoma.providers.factory import providers_from
store = providers_from({"RETOMA_HOME": sys.argv[1]})[BlobStore]
async def short():
    yield b"short"
async def long():
    for _ in range(3):
        yield b"x" * (1 << 20)
async def keep():
    await store.put("files/aa/short", short())
    await store.put("files/bb/long", long())
asyncio.run(keep())
"""


def modes(root: Path) -> dict[str, str]:
    """The mode of everything, *root* included, by its path."""
    return {
        str(path.relative_to(root)): f"{path.stat().st_mode & 0o777:o}" for path in sorted((root, *root.rglob("*")))
    }


PRIVATE = {
    ".": "700",
    "blobs": "700",
    "blobs/.parts": "700",
    "blobs/files": "700",
    "blobs/files/aa": "700",
    "blobs/files/aa/short": "600",
    "blobs/files/bb": "700",
    "blobs/files/bb/long": "600",
}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every account can reach."""
    place = Path(tempfile.mkdtemp(prefix="retoma-modes-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_what_is_kept_is_for_its_owner_alone(place: Path, umask: str) -> None:
    subprocess.run([sys.executable, "-c", KEEP, place / "above" / "home", umask], check=True, timeout=60)

    assert modes(place / "above" / "home") == PRIVATE
    assert (place / "above").stat().st_mode & 0o022 == 0


@as_root
def test_the_same_holds_for_an_ordinary_account(place: Path) -> None:
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    if not os.access(python, os.X_OK):
        pytest.skip("no Python of this version that others than root can reach")
    nobody = pwd.getpwnam("nobody")
    paths = os.pathsep.join(path for path in sys.path if path)

    subprocess.run(
        [python, "-c", KEEP, place / "home", "000"],
        check=True,
        timeout=60,
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        env={"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
    )

    assert modes(place / "home") == PRIVATE
    assert (place / "home").stat().st_uid == nobody.pw_uid


def test_a_store_that_was_open_is_closed_when_it_is_opened(place: Path) -> None:
    home = place / "home"
    asyncio.run(FolderBlobs(home / "blobs").put("files/aa/short", pieces(b"short")))
    asyncio.run(FolderBlobs(home / "blobs").put("files/bb/long", pieces(LARGE)))
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)

    store = providers_from({"RETOMA_HOME": str(home)})[BlobStore]

    assert modes(home) == PRIVATE
    assert asyncio.run(store.exists("files/aa/short"))


def test_a_closing_that_was_cut_short_is_gone_on_with(place: Path) -> None:
    home = place / "home"
    asyncio.run(FolderBlobs(home / "blobs").put("files/aa/short", pieces(b"short")))
    (home / "blobs/files/aa/short").chmod(0o644)
    (home / "blobs/.parts").chmod(0o755)  # closed last: so the rest may be open still

    providers_from({"RETOMA_HOME": str(home)})

    assert modes(home)["blobs/files/aa/short"] == "600"
    assert modes(home)["blobs/.parts"] == "700"


def test_a_link_in_the_store_closes_nothing_elsewhere(place: Path) -> None:
    outside = place / "outside"
    outside.mkdir(0o755)
    (outside / "theirs").write_text("theirs")
    (outside / "theirs").chmod(0o644)
    (place / "home" / "blobs").mkdir(parents=True)
    (place / "home" / "blobs" / "link").symlink_to(outside)
    (place / "home" / "blobs").chmod(0o755)

    providers_from({"RETOMA_HOME": str(place / "home")})

    assert (outside.stat().st_mode & 0o777, (outside / "theirs").stat().st_mode & 0o777) == (0o755, 0o644)


def test_a_folder_that_somebody_named_is_closed_and_the_one_around_it_is_theirs(place: Path) -> None:
    around = place / "around"
    around.mkdir()
    around.chmod(0o755)

    store = providers_from({"RETOMA_HOME": str(place / "home"), "RETOMA_BLOBS": f"{around}/blobs"})[BlobStore]
    asyncio.run(store.put("files/aa/short", pieces(b"short")))

    assert around.stat().st_mode & 0o777 == 0o755
    assert modes(around / "blobs")["."] == "700"
    assert not (place / "home").exists()
