"""A program with a large batch, whose commands are carried out in pieces; the test kills it in the middle of one."""

import asyncio
import sys

from retoma import Retoma, Run, pipeline


@pipeline("count")
async def count(number: int, _run: Run) -> int:
    return number


app = Retoma(pipelines=[count])


async def cancel(batch: int) -> None:
    async with app:
        found = await app.batches.cancel(batch, wait=False)
        assert found.operation_id is not None
        async for now in app.batches.carry_out(found.operation_id):
            sys.stdout.write(f"{now.done}\n")
            sys.stdout.flush()
            await asyncio.sleep(3600)  # killed here, with one piece done


if __name__ == "__main__":
    asyncio.run(cancel(int(sys.argv[1])))
