"""Processes that do the same at the same moment: resume a batch once, or look after all batches without end.

Forked after the imports, so that twenty of them are there in a moment; each has connections of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from multiprocessing.synchronize import Barrier

from batch_app import PIPELINES

from retoma.sync import Retoma


def resume(barrier: Barrier, url: str, batch: int) -> None:
    with Retoma(url, pipelines=PIPELINES) as app:
        app.batches.get(batch)  # connected, and warm
        barrier.wait(240)
        did = app.batches.resume(batch)
    line = json.dumps({"changed": did.changed, "word": did.word, "jobs": did.jobs, "resumes": did.batch.resumes})
    os.write(1, f"{line}\n".encode())  # one write, so that lines never mix


def watch(barrier: Barrier, url: str, _batch: int) -> None:
    """What a watchdog of its own does, without a pause worth the name."""
    with Retoma(url, pipelines=PIPELINES) as app:
        barrier.wait(240)
        while True:
            app.jobs.recover()
            app.batches.look_after()
            os.write(1, b"round\n")
            time.sleep(0.05)


if __name__ == "__main__":
    what, url, batch, count = sys.argv[1:]
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(int(count))
    job = {"resume": resume, "watch": watch}[what]
    callers = [fork.Process(target=job, args=(barrier, url, int(batch)), daemon=True) for _ in range(int(count))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    sys.exit(max(caller.exitcode or 0 for caller in callers))
