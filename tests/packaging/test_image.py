"""The image, built and run: as another account, on a root that cannot be written, with a drain at the end. Run by make
images, for a build takes a minute or two; the base is made of the packages of this machine, and the wheels are those of
the offline bundle, so no registry is asked.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import debian_base

ROOT = Path(__file__).parents[2]
KEY = secrets.token_hex(32)
PORT = "18765"

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(1200),
    pytest.mark.skipif("IMAGE_TESTS" not in os.environ, reason="the image is built by make images"),
]

Podman = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """podman with a store of its own."""
    for program in ("podman", "runc", "dpkg"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if os.geteuid() != 0:
        pytest.skip("only root can run containers here")
    place = Path(os.environ.get("IMAGE_STORE") or tmp_path_factory.mktemp("store"))
    words = ["--root", place / "store", "--runroot", place / "run", "--runtime", "runc"]
    words += ["--storage-driver", "overlay", "--cgroup-manager", "cgroupfs", "--events-backend", "none"]

    def run(*args: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [str(word) for word in ("podman", *words, *args)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert not check or ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    yield run
    run("system", "reset", "--force", check=False)


@pytest.fixture(scope="module")
def image(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> str:
    ours = f"3.{sys.version_info[1]}"
    asked = ["/usr/bin/python3", "-c", "import sys; print(f'3.{sys.version_info[1]}')"]
    theirs = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if ours != theirs:
        pytest.skip(f"the base has Python {theirs}, and the wheels are for {ours}")
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([ROOT / "tools/bundle", sys.executable, folder], check=True, capture_output=True)
    (bundle,) = folder.glob("*.tar")
    shutil.unpack_archive(bundle, folder)
    (wheels,) = folder.glob("*/wheels")
    debian_base.write(folder / "base.tar")
    podman("import", "-q", folder / "base.tar", "localhost/base")
    arguments = ["PYTHON_IMAGE=localhost/base", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheels"]
    podman(
        *("build", "-q", "--format", "docker", "--layers=false", "--isolation", "chroot"),
        *(word for each in arguments for word in ("--build-arg", each)),
        *("--volume", f"{wheels}:/wheels:ro"),
        *("-f", ROOT / "deploy/docker/Dockerfile", "-t", "localhost/retoma", ROOT),
    )
    return "localhost/retoma"


def locked_in(*more: str) -> list[str]:
    """How compose.yaml runs a part."""
    words = "--network host --read-only --cap-drop ALL --security-opt no-new-privileges --tmpfs /var/tmp --init=false"
    limits = "--ulimit nofile=4096:4096 --ulimit nproc=4096:4096"
    return [*words.split(), *limits.split(), "--no-healthcheck", *more]


def test_every_part_runs_as_another_account_on_a_root_that_cannot_be_written(
    podman: Podman, image: str, empty_database_url: str
) -> None:
    shown = podman(
        "run", "--rm", *locked_in("--entrypoint", "/bin/sh"), image, "-c", "id -u; touch /x; touch ~/x; retoma -h"
    )
    assert shown.stdout.startswith("10001\n")
    assert "Read-only file system" in shown.stderr

    described = json.loads(podman("inspect", image).stdout)[0]
    assert described["Config"]["User"] == "10001:10001"
    assert described["Config"]["StopSignal"] == "SIGTERM"

    volumes = [f"--volume={role}:/var/lib/retoma-urls/{role}" for role in ("all", "owner", "worker", "web")]
    podman("run", "--rm", *locked_in(f"--env=DATABASE_URL={empty_database_url}", *volumes), image, "migrate")

    ours = {
        "serve": ["--volume=web:/var/lib/retoma-urls/web:ro", "--volume=home:/var/lib/retoma"],
        "worker": ["--volume=worker:/var/lib/retoma-urls/worker:ro", "--volume=home:/var/lib/retoma"],
    }
    for part, role in (("serve", "web"), ("worker", "worker")):
        address = f"--env=DATABASE_URL_FILE=/var/lib/retoma-urls/{role}/database.url"
        settings = [address, f"--env=RETOMA_API_KEY={KEY}", f"--env=RETOMA_SERVE_PORT={PORT}"]
        words = ["serve", "--port", PORT] if part == "serve" else ["worker"]
        podman("run", "--detach", f"--name={part}", *locked_in(*settings, *ours[part]), image, *words)
    _until(lambda: podman("exec", "serve", "/opt/retoma/bin/ready", check=False).returncode == 0, podman)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        _until(lambda: _workers(connection) == 1, podman)
        users = {
            row[0]
            for row in connection.execute("select usename from pg_stat_activity where datname = current_database()")
        }
    database = urlsplit(empty_database_url).path.strip("/")
    assert {f"{database}_web", f"{database}_worker"} <= users

    for part in ("worker", "serve"):
        podman("stop", "--time", "45", part)
        code = json.loads(podman("inspect", part).stdout)[0]["State"]["ExitCode"]
        assert code == 0, podman("logs", part).stderr
    with psycopg.connect(empty_database_url) as connection:
        assert _workers(connection) == 0


def _workers(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("select count(*) from retoma.workers where stopped_at is null").fetchone()
    assert row
    return int(row[0])


def _until(there: Callable[[], bool], podman: Podman) -> None:
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end, (
            podman("logs", "serve", check=False).stderr + podman("logs", "worker", check=False).stderr
        )
        time.sleep(0.3)
