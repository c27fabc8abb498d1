"""An image that a model is shown: killed before its answer is saved, the worker's heir does not show it again."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fleet import Fleet, until
from oracle import Oracle

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs
from retoma.testing.wire import Fault, Served

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))
sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))
from pictures import png  # isort: skip - the images are those of the pipeline's own tests
from test_quotes import Gate, done, gate, start  # isort: skip - and the gate is that of the other quotes
from vision import images_in  # isort: skip

__all__ = ["gate"]

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

VISION = Path(__file__).parents[1] / "servers" / "vision.py"
ASKED = (
    "select count(*) filter (where state = 'answered'), count(*) filter (where state = 'doubtful')"
    " from retoma.calls where job_id = %s and step = 'AI_ANALYSIS'"
)


@pytest.fixture
def vision(monkeypatch: pytest.MonkeyPatch, fleet: Fleet) -> Iterator[Served]:
    with Served(str(VISION)) as served:
        monkeypatch.setenv("VISION_URL", served.url)
        monkeypatch.setenv("VISION_BLOBS", str(fleet.folder / "blobs"))
        yield served


@pytest.fixture
async def library(fleet: Fleet) -> AsyncIterator[Quotes]:
    blobs = FolderBlobs(fleet.folder / "blobs")
    async with Retoma(fleet.url, extensions=[QUOTES], providers={BlobStore: blobs}) as app:
        yield Quotes(app)


def shown(vision: Served) -> list[bytes]:
    """The images that came in, in order."""
    return [image for each in vision.heard() for image in images_in(json.loads(each["body"]))]


@pytest.mark.parametrize("step", ["AI_ANALYSIS", "AI_ANALYSIS_DONE"])
async def test_killed_with_the_answer_unsaved_the_image_has_reached_the_model_once_and_only_once(
    fleet: Fleet, oracle: Oracle, library: Quotes, gate: Gate, vision: Served, step: str
) -> None:
    worker = start(fleet, "ana")
    gate.close(step)
    id = await library.create(image=await library.keep_image(png()))
    await until(gate.waiting, what=f"a worker is about to save {step}")
    worker.send(signal.SIGKILL, executors=True, supervisor=False)
    gate.open()
    quote = await done(library, oracle, id)

    assert shown(vision) == [png()]
    assert oracle.rows(ASKED, quote.job_id) == [(1, 0)]
    assert quote.attempt_number == 2
    assert (quote.search_query_final or "").startswith("mesa ")


async def test_killed_before_the_model_answered_what_it_saw_is_the_ledger_and_what_is_in_doubt(
    fleet: Fleet, oracle: Oracle, library: Quotes, vision: Served
) -> None:
    vision.tell(Fault(kind="hang", times=1))
    first = start(fleet, "ana")
    id = await library.create(image=await library.keep_image(png()))
    await until(lambda: shown(vision), what="the model was shown the image")
    first.send(signal.SIGKILL, executors=True)
    start(fleet, "bruno")
    quote = await done(library, oracle, id)
    ((answered, doubtful),) = oracle.rows(ASKED, quote.job_id)

    assert (answered, doubtful) == (1, 1)
    assert shown(vision) == [png()] * (answered + doubtful)


async def test_five_photographs_of_an_item_reach_the_model_once_each_also_when_its_worker_is_killed(
    fleet: Fleet, oracle: Oracle, library: Quotes, gate: Gate, vision: Served
) -> None:
    five = [png(shade=100 + each) for each in range(5)]
    worker = start(fleet, "ana")
    gate.close("AI_ANALYSIS_DONE")
    id = await library.create(image=[await library.keep_image(each) for each in five])
    await until(gate.waiting, what="a worker is about to save what the model saw")
    worker.send(signal.SIGKILL, executors=True, supervisor=False)
    gate.open()
    quote = await done(library, oracle, id)

    assert shown(vision) == five
    assert oracle.rows(ASKED, quote.job_id) == [(1, 0)]
    assert len(quote.images) == 5
