"""The bundle for machines without a network: it is packed from the lock, and installed and used where there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = "from retoma.pipelines.ready_app import ready; from retoma.web import site; site(ready())"
"""Every route and page of the ready products, as far as they can be found without asking a database."""
OFFLINE = [sys.executable, str(Path(__file__).parent / "offline.py")]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the account of the embedded server can pass through; pytest's own is closed to it."""
    place = Path(tempfile.mkdtemp(prefix="retoma-bundle-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def bundle(folder: Path) -> Path:
    """The bundle as make bundle packs it, unpacked."""
    ran = _run([ROOT / "tools/bundle", sys.executable, folder / "dist"], dict(os.environ))
    if ran.returncode and "No matching distribution" in ran.stderr:
        pytest.skip("there is no package index here to pack the wheels from")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with tarfile.open(ran.stdout.strip()) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("retoma-*-offline-*")
    return unpacked


@pytest.fixture
def without_network() -> list[str]:
    """The words before a command that give it no network."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not installed")
    words = ["unshare", "--net", *OFFLINE]
    ran = _run([*words, "true"], dict(os.environ))
    if ran.returncode:
        pytest.skip(f"only root can make a network namespace here: {ran.stderr.strip()}")
    return words


def _run(command: list[object] | list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def _bare(folder: Path) -> dict[str, str]:
    """An environment without any setting of pip, Python or Retoma."""
    return {"PATH": os.defpath + ":/usr/local/bin", "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """What install.sh looks at before it installs: a bundle with one wheel, whose sums are right."""
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/retoma-0.whl").write_bytes(b"a wheel")
    (tmp_path / "requirements.lock").write_text("retoma==0\n")
    (tmp_path / "TAG").write_text(_tag() + "\n")
    shutil.copy(ROOT / "deploy/offline/install.sh", tmp_path / "install.sh")
    sums = "sha256sum TAG requirements.lock install.sh wheels/* >SHA256SUMS"
    subprocess.run(["sh", "-c", sums], cwd=tmp_path, check=True)
    return tmp_path


def _tag() -> str:
    return f"cp3{sys.version_info[1]}-" + sysconfig.get_platform().replace("-", "_")


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_the_bundle_installs_without_a_network_and_the_demo_keeps_its_promises_there(
    without_network: list[str], bundle: Path, folder: Path
) -> None:
    env = _bare(folder)

    installed = _run([*without_network, bundle / "install.sh", folder / "env"], env | {"PYTHON": sys.executable})
    assert installed.returncode == 0, installed.stdout + installed.stderr
    shown = _run([*without_network, folder / "env/bin/retoma", "demo", "--documents", "60", "--json"], env)

    assert shown.returncode == 0, shown.stdout + shown.stderr
    told = json.loads(shown.stdout)
    assert told["kept"]
    assert (told["missing"], told["redone"], told["twice"]) == (0, 0, 0)
    where = _run([folder / "env/bin/python", "-c", "import retoma; print(retoma.__file__)"], env)
    assert Path(where.stdout.strip()).is_relative_to(folder / "env")
    served = _run([folder / "env/bin/python", "-c", SITE], env)
    assert served.returncode == 0, served.stderr
    assert _without_a_hash(bundle) == []


def _without_a_hash(bundle: Path) -> list[str]:
    """The wheels whose hash is not in the lock from which pip installed them."""
    lock = (bundle / "requirements.lock").read_text(encoding="utf-8")
    sums = dict(line.split(maxsplit=1)[::-1] for line in (bundle / "SHA256SUMS").read_text().splitlines())
    wheels = sorted(path.name for path in (bundle / "wheels").iterdir())
    assert any(name.startswith("retoma-") for name in wheels)
    return [name for name in wheels if f"sha256:{sums[f'wheels/{name}']}" not in lock]


def test_a_bundle_that_was_changed_is_refused_and_nothing_is_installed(small: Path, tmp_path: Path) -> None:
    (small / "wheels/retoma-0.whl").write_bytes(b"another wheel")

    ran = _run([small / "install.sh", tmp_path / "refused"], _bare(tmp_path) | {"PYTHON": sys.executable})

    assert ran.returncode == 1
    assert "wheels/retoma-0.whl" in ran.stdout + ran.stderr
    assert "Next: copy the bundle again." in ran.stderr
    assert not (tmp_path / "refused").exists()


def test_a_python_that_the_wheels_do_not_fit_is_refused_by_name(small: Path, tmp_path: Path) -> None:
    ran = _run([small / "install.sh", tmp_path / "refused"], _bare(tmp_path) | {"PYTHON": "false"})

    assert ran.returncode == 1
    assert f"this bundle is for Python 3.{sys.version_info[1]} on " in ran.stderr
    assert not (tmp_path / "refused").exists()
