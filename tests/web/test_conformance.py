"""Schemathesis against a real server with a key: whatever the description allows is taken, and nothing else is."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

# A process that starts, some thousand requests, and a machine that may be busy.
pytestmark = pytest.mark.timeout(1200)

HERE = Path(__file__).parent / "conformance"
SEED, EXAMPLES = os.environ.get("CONFORMANCE_SEED", "1"), os.environ.get("CONFORMANCE_EXAMPLES", "4")
"""One seed, and few examples, unless somebody wants to look further: `make conformance seeds="2 3" examples=15`."""
KEY = "a-key-for-this-test-alone-0123456789"
PROGRAM = """
import os
from typing import Any

from retoma import Retoma, Run, Settings, pipeline
from retoma.pipelines import ALL
from retoma.providers.factory import providers_from


@pipeline("anything")
async def anything(value: Any, _run: Run) -> Any:
    return value


settings = Settings.load()
home = {**os.environ, "RETOMA_HOME": str(settings.home)}
app = Retoma(settings=settings, pipelines=[anything], extensions=ALL, providers=providers_from(home))
"""


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("RETOMA_", "PG", "DATABASE_"))}
    return ours | {
        "DATABASE_URL": database_url,
        "RETOMA_HOME": str(tmp_path / "home"),
        "RETOMA_API_KEY": KEY,
        # Nobody is sent away because the machine is busy.
        "RETOMA_WEB_DEADLINE_SECONDS": "300",
        "RETOMA_WEB_WAIT_SECONDS": "300",
        # More jobs than a batch takes at once are more bytes than usual; they are to be counted, and not weighed.
        "RETOMA_WEB_BODY_BYTES": "16000000",
        # Schemathesis tries hundreds of wrong keys and expects 401 for each; test_tries.py has the 429.
        "RETOMA_WEB_TRIES": "1000000",
        "PYTHONPATH": str(tmp_path),
    }


@pytest.fixture
def url(environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of a server process."""
    command = [sys.executable, "-m", "retoma", "serve", "--app", "program:app", "--port", "0"]
    log = tmp_path / "server.log"  # a pipe that nobody reads would hold the server up
    with (
        log.open("w") as out,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=out) as server,
    ):
        try:
            while not (found := re.search(r"http://[\d.]+:\d+", log.read_text())):
                assert server.poll() is None, log.read_text()
                time.sleep(0.05)
            yield found[0]
        finally:
            server.terminate()


def test_every_operation_does_what_its_description_says(url: str, environment: dict[str, str], tmp_path: Path) -> None:
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=240) as client:
        (tmp_path / "openapi.json").write_bytes(client.get("/openapi.json").raise_for_status().content)
        made = client.post("/api/v1/batches", json={"pipeline": "anything", "name": "open", "expires_seconds": 86_400})
    command = [
        str(Path(sys.executable).with_name("st")), "--config-file", str(HERE / "schemathesis.toml"), "run",
        str(tmp_path / "openapi.json"), "--url", url, "--phases", "examples,coverage,fuzzing,stateful",
        "--seed", SEED, "--max-examples", EXAMPLES,
    ]  # fmt: skip

    done = subprocess.run(
        command,
        cwd=HERE,
        env=environment | {"OPEN_BATCH": str(made.json()["id"]), "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    failures = done.stdout[done.stdout.find("FAILURES") :].splitlines()
    assert done.returncode == 0, "\n".join(line[:500] for line in failures)
    tested = re.search(r"Tested: (\d+)", done.stdout)
    assert tested is not None
    assert int(tested[1]) > 90, "every operation but the endless one"
    assert all(f"✅ {phase}" in done.stdout for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"))
