"""Worker loops on a real Ray of two raylets: one is lost, no job is. `make test-hosts` has an environment with Ray."""

from __future__ import annotations

import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from guest_program import guest
from node_stage import Stage, until

from retoma import Retoma

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed here; try: make test-hosts"),
]


class Ray:
    """The cluster, and what it says."""

    def __init__(self, stage: Stage) -> None:
        self._said = stage.folder / "ray.said"
        program = str(Path(__file__).parent / "ray_cluster.py")
        self.process: subprocess.Popen[bytes] = stage.start("ray", [program], RAY_USAGE_STATS_ENABLED="0")

    def says(self, word: str) -> str:
        """The line that begins with *word*, once it is there."""
        found: list[str] = []

        def look() -> bool:
            found[:] = [line for line in self._said.read_text().splitlines() if line.split(" ")[0] == word]
            return bool(found) or self.process.poll() is not None

        until(look, f"Ray says {word}", seconds=120)
        assert found, f"the cluster ended before it said {word}"
        return found[-1]

    def tell(self, word: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()


async def test_a_node_is_lost_and_every_job_is_done_once(stage: Stage) -> None:
    async with Retoma(stage.url, pipelines=[guest]) as app:
        jobs = [receipt.id for receipt in await app.enqueue_many(guest, range(200))]
    ray = Ray(stage)
    assert ray.says("nodes") == "nodes 2"
    until(lambda: len({pid for _, pid in stage.lines()}) == 2, "both loops work")
    before = {pid for _, pid in stage.lines()}
    ray.tell("lose")
    ray.says("lost")
    until(
        lambda: (
            not stage.one("select count(*) from retoma.jobs where queue = 'guest' and state in ('queued', 'running')")
        ),
        "all jobs end",
        seconds=120,
    )

    effects = Counter(job for (job,) in stage.psql.execute("select job from effects").fetchall())
    assert effects == Counter(jobs)
    assert stage.one("select count(*) from retoma.jobs where queue = 'guest' and state = 'completed'") == len(jobs)
    begun = Counter(job for job, _ in stage.lines())
    assert begun.total() - len(jobs) <= 4, "only what the lost node had at hand was begun again"

    ray.tell("look")
    pids = [int(pid) for pid in ray.says("pids").split()[1:]]
    assert len(pids) == 2, "the lost loop was started again, on the node that is left"
    registered = "select count(*) >= 3 from retoma.workers"
    until(lambda: stage.one(registered), "the loop that was started again says hello")
    ray.tell("stop")
    ray.says("ended")
    until(lambda: not any(psutil.pid_exists(pid) for pid in [*pids, *before]), "nothing is left")
