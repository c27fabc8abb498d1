"""One document through every process: sent, begun, killed, recovered and finished, as a receiver of OpenTelemetry sees
it over HTTP.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import crash_app
import pytest
from fleet import HERE, Fleet, Member, until
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from oracle import Oracle
from otlp import Receiver, attributes_of

from retoma import Retoma
from retoma.testing.billing import Biller
from retoma.testing.wire import Fault

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

QUESTIONS = 12
DOCUMENTS = 30
Ids = tuple[bytes, bytes]


def ids(thing: Span | Span.Link) -> Ids:
    return thing.trace_id, thing.span_id


def links(span: Span) -> dict[str, Ids]:
    return {attributes_of(link)["retoma.link"]: ids(link) for link in span.links}


async def test_a_killed_and_resumed_document_is_one_story_with_its_tokens_and_its_cost(
    fleet: Fleet, oracle: Oracle, tmp_path: Path
) -> None:
    with Receiver() as receiver, Biller(tmp_path / "bill.jsonl", seconds=0.4) as biller:
        otel = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_SERVICE_NAME": "inquiries",
            "PAID_URL": biller.base_url,
        }
        first = _worker(fleet, "ana", otel)
        job = _send(fleet, otel)
        await until(lambda: len(receiver.named("chat clerk")) >= 2, what="two answers are exported")
        biller.tell(Fault(kind="hang", times=1))
        await until(
            lambda: biller.heard() and len(biller.bill.calls) == len(receiver.named("step ask/*")),
            what="what was answered is exported, and the next question hangs",
        )

        first.send(signal.SIGKILL, executors=True)
        second = _worker(fleet, "bruno", otel)
        await until(oracle.all_ended, what="the document is done")
        second.send(signal.SIGTERM)
        assert await second.exit_code() == 0

        (sent,) = receiver.named("send documents")
        killed, resumed = receiver.named("process documents")
        steps, calls = receiver.named("step ask/*"), receiver.named("chat clerk")

    assert oracle.states([job]) == {"completed": 1}
    assert (sent.kind, killed.kind, resumed.kind) == (
        Span.SPAN_KIND_PRODUCER, Span.SPAN_KIND_CONSUMER, Span.SPAN_KIND_CONSUMER,
    )  # fmt: skip
    assert killed.status.code == Status.STATUS_CODE_ERROR, "whoever recovered the job closed its span"
    assert not killed.parent_span_id
    assert not resumed.parent_span_id
    assert links(killed) == {"enqueued": ids(sent)}
    assert links(resumed) == {"enqueued": ids(sent), "attempt before": ids(killed)}
    parents = {ids(killed): 0, ids(resumed): 0}
    for step in steps:
        parents[step.trace_id, step.parent_span_id] += 1
    assert parents[ids(killed)] >= 2
    assert parents[ids(killed)] + parents[ids(resumed)] == QUESTIONS, "no step was done twice"
    restored = [each for each in resumed.events if each.name == "step restored"]
    assert len(restored) == parents[ids(killed)], "each that the first attempt saved is an event of the second"
    by_id = {ids(step): step for step in steps}
    assert all((call.trace_id, call.parent_span_id) in by_id for call in calls)
    _are_priced(calls, biller)
    named = [attributes_of(span) for span in (*steps, *calls, killed, resumed)]
    assert {(each["retoma.job.id"], each["retoma.correlation_id"]) for each in named} == {(job, "request-4711")}


def _are_priced(calls: list[Span], biller: Biller) -> None:
    told = [attributes_of(call) for call in calls]
    for each in told:
        assert (each["gen_ai.operation.name"], each["gen_ai.provider.name"]) == ("chat", "biller")
        assert each["gen_ai.request.model"] == "clerk"
    answered = [each for each in told if "gen_ai.usage.input_tokens" in each]
    assert len(answered) == QUESTIONS
    bill = {charge.request: charge for charge in biller.bill.calls}
    assert sum(each["gen_ai.usage.input_tokens"] for each in answered) == sum(
        each.input_tokens for each in bill.values()
    )
    assert sum(each["gen_ai.usage.output_tokens"] for each in answered) == sum(
        each.output_tokens for each in bill.values()
    )
    assert sum(each["retoma.cost.usd"] for each in answered) == pytest.approx(
        float(sum(each.cost for each in bill.values()))
    )


def _worker(fleet: Fleet, label: str, otel: dict[str, str]) -> Member:
    words = ("worker", "--app", "paid_app:app", "--id", label, "--processes", "1", "--at-once", "2")
    return fleet.run(label, otel, *words)


def _send(fleet: Fleet, otel: dict[str, str]) -> int:
    return int(_run(fleet, otel, "traced_sender.py", QUESTIONS))


def _run(fleet: Fleet, otel: dict[str, str], program: str, number: int) -> str:
    environment = os.environ | fleet.environment() | {"DATABASE_URL": fleet.url} | otel
    command = [sys.executable, str(HERE / program), str(number)]
    return subprocess.run(command, env=environment, cwd=HERE, check=True, capture_output=True, text=True).stdout


async def test_what_runs_after_a_resume_links_to_the_resume_and_that_to_the_run_that_stalled(
    fleet: Fleet, oracle: Oracle
) -> None:
    with Receiver() as receiver:
        otel = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        batch = _make_batch(fleet, otel)
        first = _documents_worker(fleet, "ana", otel)
        await until(lambda: len(oracle.jobs(batch, "completed")) >= 2, what="some documents are done")
        await until(lambda: receiver.named("process documents"), what="their spans arrive")
        first.send(signal.SIGKILL, executors=True)
        async with Retoma(fleet.url, pipelines=crash_app.PIPELINES) as app:
            while oracle.batch(batch)[0] != "stalled":
                await app.batches.look_after()
                await asyncio.sleep(0.1)
        resume = fleet.run("resume", otel, "batch", "resume", str(batch))
        assert await resume.exit_code() == 0
        waiting = {job for job in oracle.jobs(batch) if not oracle.claims(job)}
        second = _documents_worker(fleet, "bruno", otel)
        await until(oracle.all_ended, what="the batch is done")
        await until(
            lambda: waiting <= _jobs([span for span in receiver.named("process documents") if "run" in links(span)]),
            what="what had not begun before the resume names its run",
        )
        second.send(signal.SIGTERM)
        assert await second.exit_code() == 0

        (sent,) = receiver.named("send documents")
        (resumed,) = receiver.named("resume batch")
        attempts = [span for span in receiver.named("process documents") if "run" in links(span)]

    assert oracle.batch(batch)[0] == "completed"
    assert links(resumed) == {"stalled": ids(sent)}, "the resume names the run that stalled"
    assert attributes_of(resumed)["retoma.batch.id"] == batch
    assert waiting
    for span in attempts:
        assert links(span)["run"] == ids(resumed)
        assert links(span)["enqueued"] == ids(sent)
        assert span.start_time_unix_nano > resumed.start_time_unix_nano


def _jobs(spans: list[Span]) -> set[int]:
    return {attributes_of(span)["retoma.job.id"] for span in spans}


def _documents_worker(fleet: Fleet, label: str, otel: dict[str, str]) -> Member:
    words = ("worker", "--app", "batch_app:app", "--id", label, "--processes", "1", "--at-once", "2")
    return fleet.run(label, otel | {"RETOMA_LEASE_SECONDS": "2"}, *words)


def _make_batch(fleet: Fleet, otel: dict[str, str]) -> int:
    return int(_run(fleet, otel, "traced_batch.py", DOCUMENTS))
