"""Never run, only type-checked: what must be accepted, and with which types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal, assert_type

import psycopg

from retoma import (
    Attempt,
    Checkpoint,
    Job,
    JobId,
    JobState,
    Metrics,
    Pipeline,
    Postpone,
    Queue,
    Receipt,
    Reject,
    Retoma,
    Retry,
    Review,
    Run,
    Schedule,
    Skip,
    SyncRun,
    isolated,
    pipeline,
)
from retoma import sync as blocking
from retoma.providers import Answer
from retoma.providers import Chat as Model
from retoma.providers.request import Request
from retoma.providers.requests.ask import Ask
from retoma.testing import Rehearsal, age, crash, drain, rehearse


@dataclass(frozen=True)
class Document:
    code: str
    path: str


@dataclass(frozen=True)
class Label:
    kind: Literal["petition", "ruling", "other"]
    confidence: float


class Counter:
    provider = "abacus"


@dataclass(frozen=True, kw_only=True)
class Count(Request[int]):
    verb: ClassVar[str] = "count"

    counter: Counter

    @property
    def service(self) -> Counter:
        return self.counter

    @property
    def answer_type(self) -> type[int]:
        return int

    @property
    def body(self) -> Mapping[str, Any]:
        return {}

    async def send(self) -> Answer:
        return Answer(raw="1", text="1", model=self.model)

    def read(self, answer: Answer, *, step: str) -> int:
        return int(answer.text) + len(step)


class Chat:
    async def ask(self, question: str, *, calm: bool = True) -> str:
        return question if calm else question.upper()


@isolated(seconds=120, megabytes=1500)
def read_text(path: str) -> str:
    return path


def count(text: str, *, least: int = 0) -> int:
    return max(len(text), least)


async def label(text: str) -> Label:
    return Label("other", len(text))


async def store(connection: psycopg.AsyncConnection[Any], label: Label, code: str) -> int:
    await connection.execute("select %s", [code])
    return int(label.confidence)


def store_plainly(connection: psycopg.Connection[Any], code: str) -> bool:
    connection.execute("select %s", [code])
    return True


@pipeline("classify-document", retry=Retry(attempts=3, wait=5.0, never=(KeyError,)), timeout=120)
async def classify(document: Document, run: Run, *, chat: Chat) -> Label:
    text = assert_type(await run.step("read", read_text, document.path), str)
    size = assert_type(await run.step("size", count, text, least=3), int)
    said = assert_type(await run.step("ask", chat.ask, text, calm=False), str)
    found = assert_type(await run.step("label", label, said), Label)
    many = assert_type(await run.map("each", label, [text], key=lambda each: each, at_once=4), list[Label])
    sizes = assert_type(await run.map("size", len, [text]), list[int])
    stored = assert_type(await run.transact("store", store, found, document.code), int)
    assert_type(await run.step("lambda", lambda: size), int)
    await run.sleep("nap", 3600)
    answer = assert_type(await run.wait_for("answer", Label, timeout=60.0), Label)
    assert_type((run.job, run.key, run.attempt, run.batch), tuple[int, str | None, int, int | None])
    if not many or not sizes or not stored:
        raise Skip("already classified")
    if size > 10:
        raise Reject("the PDF is encrypted")
    if answer.confidence < 0.6:
        raise Review(answer, "confidence below 0.6")
    if answer.kind == "other":
        raise Postpone(minutes=10)
    return found


@pipeline("count-words", lane=lambda document: document.code, lane_at_once=2)
def count_words(document: Document, run: SyncRun) -> int:
    words = assert_type(run.step("words", document.path.split), list[str])
    each = assert_type(run.map("each", len, words), list[int])
    assert_type(run.transact("store", store_plainly, document.code), bool)
    assert_type(run.wait_for("answer", str), str)
    run.sleep("nap", 3600)
    return assert_type(run.step("count", len, each), int)


@pipeline("call")
async def call(_: str, run: Run, *, counter: Counter, model: Model) -> int:
    asked = assert_type(await run.call("label", Ask(chat=model, prompt="?", into=Label)), Label)
    said: str = await run.ask("say", model, "?")
    return len(said + asked.kind) + assert_type(await run.call("count", Count(counter=counter)), int)


@pipeline("call-plainly")
def call_plainly(_: str, run: SyncRun, *, counter: Counter) -> int:
    return assert_type(run.call("count", Count(counter=counter, timeout=3, reuse=False, in_doubt="hold")), int)


assert_type(classify, Pipeline[Document, Label])
assert_type(count_words, Pipeline[Document, int])
DOCUMENT = Document("1", "a.pdf")

app = Retoma(pipelines=[classify, count_words], providers={Chat: Chat()})


async def use() -> None:
    async with app, app.transaction() as connection:
        receipt = await app.enqueue(classify, DOCUMENT, key="1", conn=connection, delay=3.0, if_taken="raise")
        assert_type(receipt, Receipt)
        many = await app.enqueue_many(classify, [DOCUMENT], key=lambda document: document.code, priority=-1)
        assert_type(many, list[Receipt])
        await app.enqueue(count_words, DOCUMENT, run_at=datetime.now(UTC), expires=60, timeout=5, attempts=2)
        assert_type(await app.jobs.output(classify, receipt.id), Label)
        assert_type(await app.jobs.output(count_words, receipt.id), int)
        assert_type(await app.jobs.get(receipt.id), Job)
        assert_type(await app.jobs.find(state=JobState.FAILED, limit=3), list[Job])
        assert_type(await app.jobs.attempts(receipt.id), list[Attempt])
        assert_type(await app.jobs.checkpoints(receipt.id), list[Checkpoint])
        assert_type(await app.workers.metrics("ana"), Metrics)
        assert_type(await app.queues.all(), list[Queue])
        assert_type(await app.jobs.signal(receipt.id, "answer", {"kind": "other"}), bool)
        assert_type(await app.system.prune(timedelta(days=3)), int)
        assert_type(await app.schedules.put(classify, DOCUMENT, name="daily", cron="0 4 * * *"), Schedule)
    await app.worker(processes=2, at_once=8, queues=["classify-document"]).run()


def use_without_await(session: object) -> None:
    with blocking.Retoma("postgresql://host/name", pipelines=[count_words]) as door, door.transaction() as connection:
        assert_type(door.enqueue(count_words, DOCUMENT, conn=session, lane="ana"), Receipt)
        assert_type(door.enqueue_many(count_words, (DOCUMENT,), conn=connection), list[Receipt])
        assert_type(door.jobs.output(count_words, JobId(1)), int)
        assert_type(door.jobs.wait(JobId(1), timeout=3), Job)


async def use_in_tests() -> None:
    rehearsal = await rehearse(classify, DOCUMENT, saved={"read": "text"}, signals={"answer": {}}, chat=Chat())
    assert_type(rehearsal, Rehearsal[Label])
    assert_type(rehearsal.output, Label)
    assert_type((await rehearse(count_words, DOCUMENT)).output, int)
    assert_type(await drain(app), int)
    assert_type(await crash(app, after=25), int)
    await age(app, 1, minutes=10)
    done: Sequence[str] = rehearsal.done
    assert done
