"""A user's program, for the tests of the command line."""

import time

from retoma import Retoma, Retry, Run, SyncRun, pipeline


@pipeline("double")
async def double(number: int, run: Run) -> int:
    return await run.step("double", lambda: number * 2)


@pipeline("stumble", retry=Retry(attempts=1))
async def stumble(name: str, run: Run) -> str:
    await run.step("look", name.upper)
    raise ValueError(f"cannot read {name}")


@pipeline("wait")
async def wait(_name: str, run: Run) -> str:
    return await run.wait_for("answer", str)


@pipeline("plod")
def plod(steps: int, run: SyncRun) -> int:
    return sum(run.step(f"part/{place}", _slowly, place) for place in range(steps))


def _slowly(place: int) -> int:
    time.sleep(0.2)
    return place


app = Retoma(pipelines=[double, stumble, wait, plod])
