"""Classify the text files of a folder with labels of your own, on this machine, without a key.

    python examples/classify_folder.py FOLDER

Run it again: a file that was classified is not classified again. The key of a job is the path of its file.
"""

import asyncio
import sys
from pathlib import Path

from retoma import Retoma, Run, pipeline
from retoma.providers import Classifier, Label
from retoma.providers.local import LocalClassifier
from retoma.testing import drain

LABELS = (
    Label(
        name="invoice", description="A bill that asks for a payment by a date", cues=("amount due", "invoice", "total")
    ),
    Label(
        name="contract", description="An agreement between two parties", cues=("the parties agree", "clause", "hereby")
    ),
    Label(name="recipe", description="How to cook a dish", cues=("oven", "tablespoon", "stir")),
)


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")


@pipeline("classify-file")
async def classify_file(path: str, run: Run, *, classifier: Classifier) -> str:
    text = await run.step("read", read, path)

    async def label() -> str:
        (verdict,) = await classifier.classify([text], LABELS, timeout=60)
        return verdict.label

    return await run.step("label", label)


app = Retoma(pipelines=[classify_file], providers={Classifier: LocalClassifier()})


async def main(folder: Path) -> None:
    files = sorted(str(file.resolve()) for file in folder.glob("*.txt"))
    async with app:
        jobs = await app.enqueue_many(classify_file, files, key=str)
        ended = await drain(app)  # in this process; in production: retoma worker --app examples/classify_folder.py:app
        for file, job in zip(files, jobs, strict=True):
            label = await app.jobs.output(classify_file, job.id)
            print(f"{Path(file).name}: {label}")
        print(f"{ended} classified now, {len(files) - ended} before")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
