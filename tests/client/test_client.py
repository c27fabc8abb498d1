"""The client against a real server in a process of its own: the same values as an app has, and every change once."""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx2
import psycopg
import pytest

from retoma.client import AccessDenied, AsyncClient, Client, ServerUnreachable
from retoma.client.operations import OPERATIONS
from retoma.errors import BatchConflict, ConfigurationError, Conflict, NotFound, UnknownPipeline
from retoma.model.alert import Finding
from retoma.model.batch import BatchState
from retoma.model.ids import BatchId, JobId
from retoma.model.operation import JobFilter
from retoma.store import alerts

from .conftest import SECRET, Served

NOW = datetime(2026, 1, 1, tzinfo=UTC)

# — the same values —


def made(served: Served, *inputs: object, pipeline: str = "double", **options: Any) -> BatchId:
    return served.ask(lambda client: client.batches.create(pipeline, inputs, name="numbers", **options)).id


def test_a_batch_is_made_worked_on_and_read_with_the_values_of_an_app(served: Served) -> None:
    id = made(served, 1, 2, 3, keys=["a", "b", "c"], labels={"team": "x"}, budget=Decimal("2.50"))
    served.work()

    def ask(name: str) -> tuple[Any, Any]:
        return (
            served.ask(lambda client: getattr(client.batches, name)(id)),
            served.app(lambda app: getattr(app.batches, name)(id)),
        )

    names = ("get", "steps", "durations", "errors", "explain", "operations", "events", "mosaic", "members", "series")
    for name in names:
        ours, theirs = ask(name)
        if name == "explain":
            assert ours.evidence.keys() == theirs.evidence.keys()
            ours, theirs = replace(ours, evidence={}), replace(theirs, evidence={})
        assert ours == theirs, name
    ours, theirs = ask("plan")
    assert ours == theirs
    ours, theirs = ask("progress")
    same = {"now": NOW, "pace_minute": 0.0, "pace_five": 0.0}  # these go on with the clock
    assert replace(ours, **same) == replace(theirs, **same)
    assert (ours.state, ours.done, ours.percent) == (BatchState.COMPLETED, 3, 100.0)
    assert served.ask(lambda client: client.batches.find(labels={"team": "x"}, limit=1)) == [
        served.app(lambda app: app.batches.get(id))
    ]


def test_a_job_is_read_with_the_values_of_an_app(served: Served) -> None:
    receipt = served.ask(lambda client: client.jobs.enqueue("double", 21, key="twenty-one"))
    again = served.ask(lambda client: client.jobs.enqueue("double", 21, key="twenty-one"))
    served.work()

    assert (receipt.new, again.new, again.id) == (True, False, receipt.id)
    for name in ("get", "attempts", "checkpoints"):
        ours = served.ask(lambda client, name=name: getattr(client.jobs, name)(receipt.id))
        theirs = served.app(lambda app, name=name: getattr(app.jobs, name)(receipt.id))
        if name == "get":
            assert json.loads(ours.output) == json.loads(theirs.output) == 42
            ours, theirs = replace(ours, input="", output=""), replace(theirs, input="", output="")
        assert ours == theirs, name
    listed = served.ask(lambda client: client.jobs.find(key="twenty-one"))
    assert [each.id for each in listed] == [receipt.id]


def test_a_long_list_is_read_page_by_page(served: Served) -> None:
    id = made(served, *range(450))

    found = served.ask(lambda client: client.jobs.find(batch_id=id, limit=430))
    rest = served.ask(lambda client: client.jobs.find(batch_id=id, before=found[-1].id, limit=430))

    assert len(found) == 430
    assert len({each.id for each in (*found, *rest)}) == 450
    served.ask(lambda client: client.batches.cancel(id))


def test_the_client_without_await_has_the_same_words(served: Served) -> None:
    with served.client() as client:
        id = client.batches.create("double", [4, 5], name="numbers").id
        served.work()

        assert [now.done for now in client.batches.watch(id)][-1] == 2
        assert client.batches.get(id) == served.ask(lambda other: other.batches.get(id))
        assert client.system.pipelines() == served.ask(lambda other: other.system.pipelines())
        assert client.jobs.wait(client.jobs.find(batch_id=id)[0].id).state.ended


def test_queues_workers_schedules_calls_and_the_system_are_read(served: Served) -> None:
    with served.client() as client:
        client.queues.pause("wait", reason="lunch")
        client.queues.weigh("wait", 3)
        client.queues.limit_lane("wait", "a", at_once=2)
        (paused,) = [each for each in client.queues.all() if each.name == "wait"]
        client.queues.resume("wait")
        limit = client.calls.set_limit("openai/gpt", requests=10)
        price = client.calls.set_price("openai", "gpt", input=Decimal("0.15"), output=Decimal("0.6"))

        assert (paused.paused_reason, paused.weight) == ("lunch", 3)
        assert client.calls.limits() == [limit]
        assert price in client.calls.prices()
        assert (client.calls.find(), client.calls.spend(), client.calls.reprice().calls) == ([], [], 0)
        with pytest.raises(NotFound):
            client.calls.get(1)
        assert {each.name for each in client.schedules.all()} == {
            each.name for each in served.app(lambda app: app.schedules.all())
        }
        assert client.workers.all(gone=True) == served.app(lambda app: app.workers.all(gone=True))
        assert client.system.health().version == served.app(lambda app: app.system.health()).version
        assert client.system.audit(action="queue.pause", limit=1)[0].object_id == "wait"


def test_every_schedule_is_run_paused_and_resumed_by_name(served: Served) -> None:
    double = served.app(
        lambda app: app.schedules.put(app.registry.pipeline("double"), 7, name="nightly", cron="0 3 * * *")
    )
    with served.client() as client:
        client.schedules.pause("nightly")
        (paused,) = [each for each in client.schedules.all() if each.name == "nightly"]
        resumed = client.schedules.resume("nightly")
        id = client.schedules.run("nightly")

        assert paused.paused_at is not None
        assert (resumed.paused_at, resumed.cron) == (None, double.cron)
        assert client.jobs.get(id).pipeline == "double"
        client.jobs.cancel(id)


def test_what_a_worker_has_done_is_told_by_its_label(served: Served) -> None:
    made(served, 1)
    served.work()
    label = served.app(lambda app: app.workers.all(gone=True))[0].label

    with served.client() as client:
        assert client.workers.metrics(label) == client.system.metrics(label)
        assert client.workers.metrics(label).jobs_completed >= 1


def test_a_queue_a_limit_and_a_worker_are_read_as_they_stand(served: Served) -> None:
    made(served, 1)
    served.work()
    worker = served.app(lambda app: app.workers.all(gone=True))[0]
    with served.client() as client:
        client.queues.limit_lane("wait", "narrow", at_once=1)
        client.calls.set_limit("azure/gpt", requests=5)
        client.calls.set_price("azure", "gpt", input=Decimal("0.15"), output=Decimal("0.6"))

        ours, theirs = client.queues.get("wait"), served.app(lambda app: app.queues.get("wait"))
        assert (ours.depth, ours.pace.name) == (theirs.depth, "wait")
        assert {(each.name, each.at_once) for each in ours.lanes} == {
            (each.name, each.at_once) for each in theirs.lanes
        }
        assert client.calls.limits_now() == served.app(lambda app: app.calls.limits_now())
        assert client.calls.close_breaker("azure/gpt") == 0
        client.calls.remove_limit("azure/gpt")
        assert "azure/gpt" not in {each.name for each in client.calls.limits()}
        assert client.calls.price_story("azure", "gpt") == served.app(lambda app: app.calls.price_story("azure", "gpt"))
        assert client.calls.budgets() == served.app(lambda app: app.calls.budgets())
        assert client.workers.holding(worker.id) == []
        with psycopg.connect(str(served.settings.database_url), autocommit=True) as psql:
            (here,) = psql.execute(
                "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
                " lease_expires_at) values ('here', 'h', 1, '0', '{q}', '{p}', 1, 60, now() + interval '1 hour')"
                " returning id"
            ).fetchone() or [0]
            assert client.workers.drain("here") == [here]
            psql.execute("delete from retoma.workers where id = %s", [here])
        with pytest.raises(NotFound):
            client.workers.drain("nobody")


def test_the_system_tells_how_it_is_and_an_alert_is_acknowledged(served: Served) -> None:
    found = [Finding("queue_late", "queue x", "warning", {"queue": "x", "due": 1, "seconds": 700})]
    (opened,) = served.app(lambda app: app.fetch(alerts.note(found, quiet=3600)))
    with served.client() as client:
        now, theirs = client.system.overview(), served.app(lambda app: app.system.overview())
        clock: dict[str, Any] = {
            "now": NOW,
            "oldest_wait_seconds": None,
            "money_age_seconds": None,
            "watched_at": None,
        }  # these go on with it
        assert replace(now, **clock) == replace(theirs, **clock)
        assert {each.level for each in client.system.doctor()} <= {"green", "amber", "red"}
        state = client.system.state()
        assert (state.revision, "jobs" in {each.name.rpartition(".")[2] for each in state.tables}) == (
            state.needed_revision,
            True,
        )

        assert opened.id in {each.id for each in client.system.alerts()}
        acknowledged = client.system.acknowledge(opened.id, note="mine")
        assert (acknowledged.state, acknowledged.note) == ("acknowledged", "mine")
        assert acknowledged == served.app(lambda app: app.system.alert(opened.id))


def test_a_schedule_is_made_changed_run_and_forgotten(served: Served) -> None:
    with served.client() as client:
        made = client.schedules.create("double", 8, name="weekly", cron="0 4 * * 1")
        with pytest.raises(Conflict):
            client.schedules.create("double", 8, name="weekly", cron="0 4 * * 1")
        changed = client.schedules.change("weekly", cron="0 5 * * 1", input=9)
        id = client.schedules.run("weekly")
        read, runs = client.schedules.get("weekly"), client.schedules.runs()

        assert (made.cron, changed.cron, read.input) == ("0 4 * * 1", "0 5 * * 1", "9")
        assert [(each.job_id, each.by_hand) for each in runs["weekly"]] == [(id, True)]
        assert client.schedules.runs("weekly") == {"weekly": runs["weekly"]}
        client.schedules.remove("weekly")
        with pytest.raises(NotFound):
            client.schedules.get("weekly")
        client.jobs.cancel(id)


# — acting —


def test_a_batch_is_filled_paused_changed_resumed_and_cancelled(served: Served) -> None:
    with served.client() as client:
        id = client.batches.open("double", name="piece by piece").id
        filled = client.batches.fill(id, [1, 2], keys=["a", "b"])
        twice = client.batches.fill(id, [2], keys=["b"])
        sealed = client.batches.seal(id, expected=2)
        paused = client.batches.pause(id, reason="lunch")
        changed = client.batches.change(id, name="another", budget=Decimal("1.5"), epoch=paused.epoch)
        resumed = client.batches.resume(id)
        cancelled = client.batches.cancel(id)

        assert (filled.added, twice.known, sealed.total) == (2, 1, 2)
        assert (paused.state, paused.reason) == ("paused", "lunch")
        assert (changed.name, changed.budget) == ("another", Decimal("1.5"))
        assert (resumed.changed, cancelled.state) == (True, "cancelled")
        assert client.batches.retry_failed(id, cancelled=True).jobs == 2
        served.work()
        assert client.batches.restart(id).jobs == 2
        served.work()


def test_jobs_are_retried_restarted_signalled_and_cancelled(served: Served) -> None:
    with served.client() as client:
        failed = client.jobs.enqueue("stumble", "a.pdf").id
        waiting = client.jobs.enqueue("wait", "b.pdf").id
        served.work()

        assert "cannot read a.pdf" in (client.jobs.get(failed).error or "")
        assert client.jobs.retry(failed, attempts=2).state == "queued"
        assert client.jobs.cancel(failed).state == "cancelled"
        assert client.jobs.restart(failed).attempt == 0
        assert (client.jobs.signal(waiting, "answer", "yes"), client.jobs.signal(waiting, "answer", "no")) == (
            True,
            False,
        )
        served.work()
        assert client.jobs.get(waiting).output == '"yes"'
        client.jobs.cancel(client.jobs.enqueue("wait", "c.pdf").id)


def test_many_jobs_are_found_by_their_errors_and_acted_on_at_once(served: Served) -> None:
    with served.client() as client:
        ids = [client.jobs.enqueue("stumble", "deed.pdf", key=f"shelf/{each}.pdf").id for each in ("deed", "will")]
        served.work()
        which = JobFilter(states=("failed",), pipeline="stumble", key_prefix="shelf/")

        (group,) = [each for each in client.jobs.errors(pipeline="stumble") if set(ids) <= set(each.sample)]
        assert "cannot read deed.pdf" in (group.example or "")
        assert [hit.id for hit in client.jobs.search("will.pdf")] == [ids[1]]
        plan = client.jobs.restart_plan(ids[0])
        assert plan == served.app(lambda app: app.jobs.restart_plan(ids[0]))
        assert (plan.can, [each.step for each in plan.steps]) == (True, ["look"])
        would = client.jobs.dry_run("retry", which)
        assert (would.jobs, would.filter, {each.id for each in would.sample}) == (2, which, set(ids))
        done = client.jobs.operate("retry", which, attempts=2)
        assert (done.kind, done.done, done.filter, done.finished) == ("retry", 2, which, True)
        assert done.id in {each.id for each in client.jobs.operations()}
        with pytest.raises(Conflict):
            client.jobs.cancel_operation(done.id)
        assert client.jobs.operate("cancel", JobFilter(ids=tuple(ids))).done == 2


def test_a_review_is_leased_decided_undone_and_exported(served: Served) -> None:
    with served.client() as client:
        for name in ("a", "b", "c"):
            client.jobs.enqueue("judge", name)
        served.work()

        waiting = client.reviews.find(pipeline="judge")
        one, other, third = client.reviews.next(limit=3, pipeline="judge")
        theirs = served.app(lambda app: app.reviews.get(one.review.id))
        assert [each.id for each in waiting] == [one.review.id, other.review.id, third.review.id]
        assert (one.review.proposal, one.evidence) == (theirs.review.proposal, theirs.evidence)
        assert client.reviews.get(one.review.id) == one
        assert sorted(client.reviews.renew()) == sorted(each.id for each in waiting)
        accepted = client.reviews.accept(one.review.id, key="once", note="clear")
        again = client.reviews.accept(one.review.id, key="once", note="clear")
        corrected = client.reviews.correct(other.review.id, "quiet", label="quiet", seconds=2.0)
        undone = client.reviews.undo(corrected.id)
        rejected = client.reviews.reject(other.review.id)

        assert (accepted.id, accepted.kind, accepted.decided) == (again.id, "accept", '"A"')
        assert (corrected.decided, undone.undoes, rejected.kind) == ('"quiet"', corrected.id, "reject")
        assert (client.reviews.skip(third.review.id), client.reviews.skip(third.review.id)) == (True, False)
        decided = client.reviews.decisions(pipeline="judge")
        assert [each.id for each in decided] == [rejected.id, undone.id, corrected.id, accepted.id]
        assert list(client.reviews.export(pipeline="judge")) == decided[::-1]
        ours = client.reviews.agreement(pipeline="judge")
        theirs = served.app(lambda app: app.reviews.agreement(pipeline="judge"))
        assert (ours.decided, ours.agreed) == (theirs.decided, theirs.agreed)
        assert (ours.by_label(), ours.by_tenth()) == (theirs.by_label(), theirs.by_tenth())


# — errors —


def test_problems_become_the_errors_of_an_app(served: Served) -> None:
    with served.client() as client:
        for error, ask in (
            (NotFound, lambda: client.batches.get(BatchId(10**9))),
            (NotFound, lambda: client.jobs.get(JobId(10**9))),
            (UnknownPipeline, lambda: client.jobs.enqueue("nothing", 1)),
            (ConfigurationError, lambda: client.jobs.enqueue("double", "a word")),
            (ConfigurationError, lambda: client.batches.create("double", [1, 2], name="x", keys=["one"])),
        ):
            with pytest.raises(error):
                ask()
        id = client.batches.open("double", name="empty").id
        with pytest.raises(BatchConflict) as conflict:
            client.batches.seal(id)
        with pytest.raises(Conflict):
            client.jobs.restart(client.jobs.enqueue("wait", "x", delay_seconds=3600).id)

    assert conflict.value.code == "batch_empty"
    assert conflict.value.problem.correlation_id  # type: ignore[attr-defined]


def test_a_wrong_key_and_a_missing_one_are_refused(served: Served) -> None:
    for key in ("rtm_wrong", None):
        with Client(served.url, api_key=key) as client, pytest.raises(AccessDenied):
            client.queues.all()


def test_where_nobody_answers_the_address_is_named_without_its_password() -> None:
    with Client("http://me:secret@127.0.0.1:1", tries=1) as client, pytest.raises(ServerUnreachable) as error:
        client.queues.all()

    assert "127.0.0.1:1" in str(error.value)
    assert "secret" not in str(error.value)


def test_an_address_that_is_none_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETOMA_API_URL", raising=False)
    for url in (None, "localhost:8080", "postgresql://me:secret@host/x"):
        with pytest.raises(ConfigurationError) as error:
            Client(url)
        assert "secret" not in str(error.value)


def test_the_address_and_the_key_come_from_the_environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOMA_API_URL", f"{served.url}/api/v1/")
    monkeypatch.setenv("RETOMA_API_KEY", SECRET)

    with Client() as client:
        assert client.url == served.url
        assert client.system.pipelines()


# — once —


class Lossy(httpx2.HTTPTransport):
    """Delivers each request, and loses the answers to the first of them."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.lost = lost
        self.sent: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        response = super().handle_request(request)
        if len(self.sent) <= self.lost:
            response.close()
            raise httpx2.ReadError("the connection broke", request=request)
        return response


def test_a_change_whose_answer_is_lost_is_sent_again_and_done_once(served: Served) -> None:
    lossy = Lossy(lost=2)
    with httpx2.Client(transport=lossy) as http, Client(served.url, api_key=SECRET, http=http) as client:
        made = client.batches.create("double", [1], name="lost answers")

    found = served.ask(lambda client: client.batches.find(name="lost answers"))
    assert [each.id for each in found] == [made.id]
    assert len(lossy.sent) == 3
    assert len({each.headers["idempotency-key"] for each in lossy.sent}) == 1
    served.ask(lambda client: client.batches.cancel(made.id))


def test_a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not(served: Served) -> None:
    asked: list[int] = []
    busy = {"code": "overloaded", "detail": "Busy.", "retryable": True}

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(1)
        if request.url.path.endswith("/queues"):
            return httpx2.Response(200, json={"queues": []}) if len(asked) > 2 else httpx2.Response(503, json=busy)
        return httpx2.Response(403, json={"code": "scope_required", "detail": "No.", "retryable": False})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http, Client(served.url, http=http) as client:
        assert client.queues.all() == []
        assert len(asked) == 3
        with pytest.raises(AccessDenied):
            client.workers.all()

    assert len(asked) == 4


# — the stream —


class Breaking(httpx2.AsyncHTTPTransport):
    """Breaks the first stream after its first line."""

    broken = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if "x-ndjson" not in request.headers["accept"] or self.broken:
            return response
        self.broken += 1
        whole = response.stream

        class Torn(httpx2.AsyncByteStream):
            async def __aiter__(self) -> Any:
                async for chunk in whole:  # type: ignore[union-attr]
                    yield chunk
                    raise httpx2.ReadError("the connection broke")

            async def aclose(self) -> None:
                await whole.aclose()  # type: ignore[union-attr]

        return httpx2.Response(response.status_code, headers=response.headers, stream=Torn())


def test_a_stream_that_breaks_is_taken_up_where_it_broke_and_ends_with_the_batch(served: Served) -> None:
    id = made(served, 1, 2, 3)
    breaking = Breaking()

    async def follow() -> list[Any]:
        async with (
            httpx2.AsyncClient(transport=breaking) as http,
            AsyncClient(served.url, api_key=SECRET, http=http) as client,
        ):
            following = asyncio.create_task(_all(client, id))
            await asyncio.to_thread(served.work)
            return await following

    news = asyncio.run(follow())

    numbers = [each.id for each in news if each.id is not None]
    assert breaking.broken == 1
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == served.ask(lambda client: client.batches.get(id)).event_seq


async def _all(client: AsyncClient, id: BatchId) -> list[Any]:
    return [each async for each in client.batches.follow(id, after=0)]


def test_news_of_many_batches_come_each_after_its_number(served: Served) -> None:
    one, other = made(served, 1), made(served, 2)
    served.work()

    news = served.ask(lambda client: client.batches.news({one: 1, other: 0}))

    assert {each.batch_id for each in news} == {one, other}
    assert min(each.seq for each in news if each.batch_id == one) == 2


# — complete —


def test_every_operation_of_the_table_is_asked_for_by_a_method() -> None:
    with Client("http://x") as client:
        modules = {inspect.getmodule(type(each)) for each in vars(client).values() if hasattr(each, "_server")}
    source = "".join(inspect.getsource(each) for each in modules if each)

    assert [name for name in OPERATIONS if f'"{name}"' not in source] == []


def test_both_clients_have_the_same_namespaces_and_methods() -> None:
    with Client("http://x") as client:
        theirs = vars(client)
    ours = vars(AsyncClient("http://x"))

    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"_transport"}:
        one, other = vars(type(ours[name])), vars(type(theirs[name]))
        assert one.keys() == other.keys()
        for each, method in one.items():
            if not each.startswith("_"):
                assert inspect.signature(method).parameters.keys() == inspect.signature(other[each]).parameters.keys()
