"""Two raylets on this machine, and a loop on each: ray_cluster.py; it is told on standard input what to do.

*lose* ends the second raylet and all that came of it; *stop* drains the loops, and ends the cluster.
"""

from __future__ import annotations

import os
import sys
import time

import ray
from ray.cluster_utils import Cluster

from retoma.hosts.ray import start, stop

PASSED_ON = ("DATABASE_URL", "GUEST_FILE", "PYTHONPATH")


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - the test listens


def nodes(actors: list[ray.actor.ActorHandle]) -> set[str]:
    """Where the loops are."""
    ids = [ray.get(actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())) for actor in actors]
    return set(ids)


def pid(actor: ray.actor.ActorHandle) -> int:
    """The worker's process, once Ray has started the actor again."""
    while True:
        try:
            if found := ray.get(actor.pid.remote()):
                return int(found)
        except ray.exceptions.ActorUnavailableError:
            pass
        time.sleep(0.2)


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    told = {name: value for name, value in os.environ.items() if name.startswith("RETOMA_") or name in PASSED_ON}
    actors = start("guest_program:app", loops=2, processes=1, at_once=4, environment=told)
    say("nodes", len(nodes(actors)))
    for line in sys.stdin:
        if line == "lose\n":
            cluster.remove_node(second, allow_graceful=False)
            say("lost")
        elif line == "look\n":
            say("pids", *(pid(actor) for actor in actors))
        else:
            break
    stop(loops=2)
    say("stopped")
    ray.shutdown()
    cluster.shutdown()
    say("ended")


if __name__ == "__main__":
    main()
