"""A kind of request that the engine has never heard of, in one file: recorded, limited, priced, and paid once.

The first part is all that a new kind of provider takes; CONTRIBUTING.md tells the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Protocol

import psycopg
import pytest

from retoma import JobState, Retry, Run, SyncRun, pipeline
from retoma.errors import AnswerUnfit
from retoma.providers import Answer, ProviderTimeout, RateLimited, Usage
from retoma.providers.request import Request
from retoma.testing import drain, rehearse

# — the new kind —


class Translator(Protocol):
    """Translates texts, for money, by the letter."""

    provider: str
    model: str

    async def translate(self, text: str, *, into: str, timeout: float) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Translate(Request[str]):
    """*text* in another language."""

    verb: ClassVar[str] = "translate"

    translator: Translator
    text: str
    language: str = "pt"

    @property
    def service(self) -> Translator:
        return self.translator

    @property
    def answer_type(self) -> type[str]:
        return str

    @property
    def body(self) -> Mapping[str, Any]:
        return {"text": self.text, "language": self.language}

    @property
    def estimate(self) -> Usage:
        return Usage(units=len(self.text))

    async def send(self) -> Answer:
        found = await self.translator.translate(self.text, into=self.language, timeout=self.timeout)
        return Answer(raw=found, text=found, model=self.model, usage=Usage(units=len(self.text)))

    def read(self, answer: Answer, *, step: str) -> str:
        if not answer.text:
            raise AnswerUnfit(f"The answer to step {step!r} is empty.", raw=answer.text)
        return answer.text


# — its proof —


@dataclass(frozen=True, kw_only=True)
class Correct(Translate):
    """Another kind with the same fields."""

    verb: ClassVar[str] = "correct"


class Words:
    """A service that translates by turning letters round, and remembers what it was asked."""

    provider = "babel"
    model = "words-1"

    def __init__(self, *failures: Exception, silent: bool = False) -> None:
        self.asked: list[str] = []
        self.failures = list(failures)
        self.silent = silent

    async def translate(self, text: str, *, into: str, timeout: float) -> str:  # noqa: ARG002
        self.asked.append(text)
        if self.failures:
            raise self.failures.pop(0)
        return "" if self.silent else text[::-1]


@pipeline("translate", retry=Retry(attempts=2, wait=0.0))
async def translate(text: str, run: Run, *, translator: Translator) -> str:
    return await run.call("translate", Translate(translator=translator, text=text))


@pipeline("translate-plainly", retry=Retry(attempts=1))
def translate_plainly(text: str, run: SyncRun, *, translator: Translator) -> str:
    return run.call("translate", Translate(translator=translator, text=text))


@pipeline("correct", retry=Retry(attempts=1))
async def correct(text: str, run: Run, *, translator: Translator) -> str:
    return await run.call("correct", Correct(translator=translator, text=text))


def calls(psql: psycopg.Connection, columns: str) -> list[Any]:
    return psql.execute(f"select {columns} from retoma.calls order by id").fetchall()


@pytest.mark.parametrize("asking", [translate, translate_plainly], ids=["async", "plain"])
async def test_a_foreign_request_is_recorded_with_its_price_and_its_answer(
    app_with: Any, psql: psycopg.Connection, asking: Any
) -> None:
    app = await app_with(asking, providers={Translator: Words()})
    await app.calls.set_price("babel", "words-1", unit=Decimal("0.01"))
    job = await app.enqueue(asking, "abc")

    await drain(app)

    assert await app.jobs.output(asking, job.id) == "cba"
    columns = "provider, model, step, kind, state, request, answer, reserved, cost, units"
    body = {"text": "abc", "language": "pt"}
    price = Decimal("0.03")
    assert calls(psql, columns) == [
        ("babel", "words-1", "translate", "first", "answered", body, "cba", price, price, 3)
    ]


async def test_a_foreign_request_is_paid_once_when_its_checkpoint_is_lost_and_by_other_jobs(
    app_with: Any, psql: psycopg.Connection
) -> None:
    words = Words()
    app = await app_with(translate, providers={Translator: words})
    job = await app.enqueue(translate, "abc")
    await drain(app)
    # As if the executor had died between the answer and the checkpoint.
    psql.execute("delete from retoma.checkpoints")
    psql.execute("update retoma.jobs set state = 'queued', finished_at = null, output = null, fence = 7")
    other = await app.enqueue(translate, "abc")

    await drain(app, at_once=1)

    assert [await app.jobs.output(translate, each.id) for each in (job, other)] == ["cba", "cba"]
    assert words.asked == ["abc"]
    assert calls(psql, "state, reused") == [("answered", 2)]


async def test_a_foreign_request_whose_answer_was_lost_is_asked_again_as_such(
    app_with: Any, psql: psycopg.Connection
) -> None:
    words = Words(ProviderTimeout("No answer.", provider="babel"))
    app = await app_with(translate, providers={Translator: words})
    job = await app.enqueue(translate, "abc")

    await drain(app)

    assert await app.jobs.output(translate, job.id) == "cba"
    assert calls(psql, "kind, state") == [("first", "doubtful"), ("again", "answered")]


async def test_a_foreign_request_takes_its_turn_in_the_limits_of_its_provider(
    app_with: Any, psql: psycopg.Connection
) -> None:
    words = Words(RateLimited("Slow down.", provider="babel", retry_after=600, paid=False))
    app = await app_with(translate, providers={Translator: words})
    job = await app.enqueue(translate, "abc")

    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.QUEUED
    [limit] = [each for each in await app.calls.limits() if each.cooled_until is not None]
    assert limit.name == "babel/words-1"
    assert calls(psql, "state, cost") == [("failed", None)]


async def test_a_foreign_request_stays_in_the_budget_of_its_batch(app_with: Any, psql: psycopg.Connection) -> None:
    words = Words()
    app = await app_with(translate, providers={Translator: words})
    await app.calls.set_price("babel", "words-1", unit=Decimal("0.01"))
    batch = await app.batch(translate, ["abc", "defg"], name="x", budget=Decimal("0.05"))

    await drain(app, at_once=1)

    now = await app.batches.progress(batch.id)
    assert (now.state, now.reason) == ("paused", "budget")
    assert len(words.asked) == len(calls(psql, "id")) == 1


async def test_two_kinds_with_the_same_body_do_not_share_an_answer(app_with: Any, psql: psycopg.Connection) -> None:
    words = Words()
    app = await app_with(translate, correct, providers={Translator: words})
    await app.enqueue(translate, "abc")
    await app.enqueue(correct, "abc")

    await drain(app, at_once=1)

    assert words.asked == ["abc", "abc"]
    assert len({key for (key,) in calls(psql, "key")}) == 2


async def test_a_foreign_answer_that_does_not_fit_fails_the_step_and_is_given_to_no_other_job(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(translate, providers={Translator: Words(silent=True)})
    job = await app.enqueue(translate, "abc")

    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.FAILED
    assert calls(psql, "state, unfit_at is not null") == [("answered", True)], "the next attempt pays for no other"


async def test_a_foreign_request_outside_of_a_job_and_in_a_rehearsal(app_with: Any, psql: psycopg.Connection) -> None:
    words = Words()
    app = await app_with(translate, providers={Translator: words})

    outside = [await app.call("try", Translate(translator=words, text="abc")) for _ in range(2)]
    rehearsed = await rehearse(translate, "xyz", translator=words)

    assert (outside, rehearsed.output) == (["cba", "cba"], "zyx")
    assert words.asked == ["abc", "xyz"]
    assert calls(psql, "step, job_id, reused") == [("try", None, 1)]


async def test_what_this_machine_does_is_not_recorded(app_with: Any, psql: psycopg.Connection) -> None:
    words = Words()
    words.provider = "local"
    app = await app_with(translate, providers={Translator: words})
    job = await app.enqueue(translate, "abc")

    await drain(app)

    assert await app.jobs.output(translate, job.id) == "cba"
    assert calls(psql, "id") == []
