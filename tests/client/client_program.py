"""A user's program, for the tests of the client and of the command line with --api."""

from retoma import Retoma, Retry, Review, Run, pipeline


@pipeline("double")
async def double(number: int, run: Run) -> int:
    """Doubles a number."""
    return await run.step("double", lambda: number * 2)


@pipeline("stumble", retry=Retry(attempts=1))
async def stumble(name: str, run: Run) -> str:
    await run.step("look", name.upper)
    raise ValueError(f"cannot read {name}")


@pipeline("wait")
async def wait(_name: str, run: Run) -> str:
    return await run.wait_for("answer", str)


@pipeline("judge")
async def judge(name: str, run: Run) -> str:
    raise Review(
        await run.step("look", name.upper),
        "in doubt",
        label="loud",
        confidence=0.55,
        margin=0.1,
        text=name,
        version="2",
    )


PIPELINES = (double, stumble, wait, judge)
app = Retoma(pipelines=PIPELINES)
