"""A program that is never sure, for the tests of the command line."""

from retoma import Retoma, Review, Run, pipeline


@pipeline("guess")
async def guess(number: int, _run: Run) -> int:
    raise Review(number * 2, "it is a guess", margin=number / 10, label="double")


app = Retoma(pipelines=[guess])
