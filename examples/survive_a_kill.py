"""A pipeline with steps goes on after kill -9, at the first step that is not done.

    python examples/survive_a_kill.py

The program starts a real worker, kills it after three steps, and finishes the job itself. Every step that runs appends
a line to done.log, so the file shows what was done twice: at most the steps that were under way at the kill.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path

from retoma import Retoma, SyncRun, pipeline
from retoma.testing import age, crash, drain

LOG = Path("done.log")
CHAPTERS = ["one", "two", "three", "four", "five", "six"]


def summarize(chapter: str) -> str:
    time.sleep(0.1)
    with LOG.open("a") as log:
        log.write(f"{chapter}\n")
    return chapter[:2]


@pipeline("summarize-book")
def summarize_book(chapters: list[str], run: SyncRun) -> str:
    parts = [run.step(f"chapter/{name}", summarize, name) for name in chapters]
    return run.step("join", " ".join, parts)


app = Retoma(pipelines=[summarize_book])


async def main() -> None:
    LOG.unlink(missing_ok=True)
    async with app:
        job = await app.enqueue(summarize_book, CHAPTERS)
        await crash(app, steps=3, reference=f"{__file__}:app")
        saved = len(await app.jobs.checkpoints(job.id))
        print(f"the worker is killed; {saved} steps are saved")

        await age(app, job, minutes=2)  # its lease ends; nobody wants to wait a minute for that
        await drain(app)

        result = await app.jobs.output(summarize_book, job.id)
        print(f"result: {result}")
        print(f"attempts: {[str(each.ending) for each in await app.jobs.attempts(job.id)]}")
        print(f"done twice: {[name for name, times in Counter(LOG.read_text().split()).items() if times > 1]}")


if __name__ == "__main__":
    asyncio.run(main())
