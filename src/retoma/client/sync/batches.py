"""Batches over HTTP: made, followed, acted on."""

# Made by tools/sync.py from client/batches.py; change that one.

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypedDict, Unpack

from retoma.client.errors import ServerFailed, ServerUnreachable
from retoma.client.sync.async_transport import Transport
from retoma.client.values import Done, Filled, Made, News, given, value_of, values_of
from retoma.errors import ConfigurationError
from retoma.model.batch import Batch, BatchState, Durations, ErrorGroup, Event, Operation, Plan, Progress, StepFigures
from retoma.model.batch_figures import Bucket, Member
from retoma.model.cohort import Cohort
from retoma.model.evidence import Explanation
from retoma.model.ids import BatchId
from retoma.model.job import JobState
from retoma.model.pilot import Pilot
from retoma.values.cursors import cursor_of

_PAGE, _EVENTS = 200, 1000
_ENDS = ("end", "closing")
_TRIES, _PAUSE = 5, 1.0


class Batching(TypedDict, total=False):
    """What a new batch may be given; what is left out is as the pipeline has it."""

    route: str
    labels: Mapping[str, str]
    configuration: Mapping[str, Any]
    max_retries: int
    max_resumes: int
    max_failure_rate: float
    stall_seconds: float
    budget: Decimal
    at_once: int
    queue: str
    priority: int
    timeout_seconds: float
    pilot: int


class Changing(TypedDict, total=False):
    """What of a batch may be changed; None lifts the budget or the failure rate, and takes all labels away."""

    name: str
    labels: Mapping[str, str] | None
    max_resumes: int
    max_failure_rate: float | None
    stall_seconds: float
    budget: Decimal | None


def jobs_of(inputs: Iterable[Any], keys: Sequence[str] | None) -> list[dict[str, Any]]:
    """Inputs and their keys, as a request has them."""
    given_inputs = list(inputs)
    if keys is None:
        return [{"input": each} for each in given_inputs]
    if len(keys) != len(given_inputs):
        raise ConfigurationError(
            f"There are {len(given_inputs)} inputs and {len(keys)} keys.", next="Give every input a key, or none."
        )
    return [{"input": each, "key": key} for each, key in zip(given_inputs, keys, strict=True)]


class Batches:
    """Batches of a server: many jobs followed as one."""

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    # — making —

    def create(
        self,
        pipeline: str,
        inputs: Iterable[Any],
        *,
        name: str,
        keys: Sequence[str] | None = None,
        **options: Unpack[Batching],
    ) -> Made:
        """Make a batch of one job per input, as JSON values; it begins at once. *keys* names the inputs, in order."""
        body = {"pipeline": pipeline, "name": name, "jobs": jobs_of(inputs, keys), **given(**options)}
        return value_of(Made, self._server.ask("createBatch", body=body))

    def open(self, pipeline: str, *, name: str, expires_seconds: float = 3600.0, **options: Unpack[Batching]) -> Made:
        """Open a batch to be filled piece by piece; nothing of it runs until it is sealed."""
        body = {"pipeline": pipeline, "name": name, "expires_seconds": expires_seconds, **given(**options)}
        return value_of(Made, self._server.ask("createBatch", body=body))

    def fill(self, id: BatchId, inputs: Iterable[Any], *, keys: Sequence[str] | None = None) -> Filled:
        """Add jobs to an open batch. The same key adds nothing, so a part may be sent twice."""
        return value_of(Filled, self._server.ask("fillBatch", id=id, body={"jobs": jobs_of(inputs, keys)}))

    def seal(self, id: BatchId, *, expected: int | None = None, pilot: int = 0) -> Batch:
        """Let the jobs of an open batch be taken, or first those of a *pilot*; *expected* must equal their number."""
        return _batch(self._server.ask("sealBatch", id=id, body=given(expected=expected, pilot=pilot)))

    # — looking —

    def find(
        self,
        *,
        states: Sequence[BatchState | str] | None = None,
        pipeline: str | None = None,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Batch]:
        """Batches, newest first, *before* an id for the next page."""
        wanted = [f"{key}={value}" for key, value in (labels or {}).items()]
        if len(wanted) > 1:
            raise ConfigurationError("A server looks for one label at a time.", next="Name one label.")
        query = {
            "state": ",".join(map(str, states)) if states else None,
            "pipeline": pipeline,
            "name": name,
            "label": next(iter(wanted), None),
            "cursor": None if before is None else cursor_of(before),
        }
        found = self._server.pages("listBatches", "batches", most=limit, page=_PAGE, query=query)
        return [_batch(each) for each in found]

    def get(self, id: BatchId) -> Batch:
        """A batch as it stands; its configuration is empty where the key may not see content."""
        return _batch(self._server.ask("getBatch", id=id))

    def progress(self, id: BatchId) -> Progress:
        """How far a batch has come, every figure from one snapshot."""
        return value_of(Progress, self._server.ask("getProgress", id=id))

    def steps(self, id: BatchId) -> list[StepFigures]:
        """For each step: how often it was done, how long it takes, and how many jobs have got this far."""
        return values_of(StepFigures, (self._server.ask("getSteps", id=id))["steps"])

    def durations(self, id: BatchId) -> Durations:
        """How long the successful attempts took."""
        return value_of(Durations, (self._server.ask("getSteps", id=id))["durations"])

    def errors(self, id: BatchId) -> list[ErrorGroup]:
        """What failed, grouped by equal errors; their words are there where the key may see content."""
        return values_of(ErrorGroup, (self._server.ask("listErrors", id=id))["errors"])

    def mosaic(self, id: BatchId) -> str:
        """The state of every job as one letter, in the order of the inputs, at most 100,000: q queued, r running, c
        completed, s skipped, f failed, v review, x cancelled.
        """
        return str((self._server.ask("getMosaic", id=id))["letters"])

    def series(self, id: BatchId, *, buckets: int = 60) -> list[Bucket]:
        """How many attempts ended over time, and how long they took, in at most so many equal *buckets*."""
        return values_of(Bucket, (self._server.ask("getSeries", id=id, query={"buckets": buckets}))["buckets"])

    def members(
        self,
        id: BatchId,
        *,
        states: Sequence[JobState | str] | None = None,
        fingerprint: str | None = None,
        text: str | None = None,
        saved: bool | None = None,
        after: int = 0,
        limit: int = 50,
    ) -> list[Member]:
        """The jobs of a batch in the order of the inputs, *after* an id for the next page: those in some *states*, of
        one error group (*fingerprint*), with *text* in their key, with or without a *saved* step.
        """
        query = {
            "state": ",".join(map(str, states)) if states else None,
            "error_group": fingerprint,
            "q": text,
            "saved": saved,
            "cursor": cursor_of(after) if after else None,
        }
        found = self._server.pages("listMembers", "jobs", most=limit, page=_PAGE, query=query, id=id)
        return values_of(Member, [{"error": None, **each} for each in found])

    def plan(self, id: BatchId) -> Plan:
        """What a resume would skip, continue and start."""
        found = self._server.ask("getPlan", id=id)
        return value_of(Plan, found, batch=self.get(id))

    def pilot(self, id: BatchId) -> Pilot:
        """How the pilot of a batch went, and what the whole will cost, take and lose by it."""
        return value_of(Pilot, self._server.ask("getPilot", id=id), batch=self.get(id))

    def explain(self, id: BatchId) -> Explanation:
        """Why a batch progresses or does not, and what to do."""
        return value_of(Explanation, self._server.ask("explainBatch", id=id))

    def operations(self, id: BatchId) -> list[Operation]:
        """The commands that were or are being carried out on a batch in pieces, newest first."""
        return values_of(Operation, (self._server.ask("listOperations", id=id))["operations"])

    def events(self, id: BatchId, *, after: int = 0, limit: int = 500) -> list[Event]:
        """What happened to a batch, in order, after a number."""
        query = {"after": after, "limit": min(limit, _EVENTS)}
        return values_of(Event, (self._server.ask("listEvents", id=id, query=query))["events"], batch_id=id)

    def news(self, cursors: Mapping[BatchId, int], *, limit: int = 200) -> list[Event]:
        """What happened to many batches, each after its own number."""
        query = {"batch": [f"{id}:{after}" for id, after in cursors.items()], "limit": limit}
        return values_of(Event, (self._server.ask("listNews", query=query))["events"])

    # — following —

    def watch(self, id: BatchId, *, every: float = 0.5) -> Iterator[Progress]:
        """Yield the progress of a batch whenever something happens to it, until it has ended."""
        seen, tag = -1, None
        while True:
            told, tag = self._server.ask_unless(tag, "getProgress", id=id)
            if told is not None:
                now = value_of(Progress, told)
                if now.event_seq != seen:
                    seen = now.event_seq
                    yield now
                if now.state.ended:
                    return
            self._server.sleep(every)

    def follow(self, id: BatchId, *, after: int | None = None) -> Iterator[News]:
        """Yield the news of a batch as they are told, until it has ended. A broken stream is taken up again where it
        broke: what has a number comes once.
        """
        broken = 0
        while True:
            last = None
            try:
                for line in self._server.lines("listEvents", id=id, query={"after": after}):
                    last, broken = value_of(News, json.loads(line)), 0
                    after = after if last.id is None else last.id
                    if last.event not in _ENDS:
                        yield last
            except (ServerUnreachable, ServerFailed):
                broken += 1
                if broken >= _TRIES:
                    raise
            else:
                if last is None or last.event == "end":
                    return
            self._server.sleep(_PAUSE)

    # — acting —

    def resume(self, id: BatchId, *, epoch: int | None = None, max_resumes: int | None = None) -> Done:
        """Continue a batch from where it stopped. Asked again while it runs, it answers that it does."""
        body = given(epoch=epoch, max_resumes=max_resumes)
        return value_of(Done, self._server.ask("resumeBatch", id=id, body=body))

    def retry_failed(
        self, id: BatchId, *, fingerprint: str | None = None, cancelled: bool = False, attempts: int | None = None
    ) -> Done:
        """Retry only the failed jobs of a batch, or one error group; finished steps are not done again."""
        body = given(fingerprint=fingerprint, cancelled=cancelled, attempts=attempts)
        return value_of(Done, self._server.ask("retryFailed", id=id, body=body))

    def restart(self, id: BatchId, *, configuration: Mapping[str, Any] | None = None) -> Done:
        """Run every job of an ended batch again, finished ones too. What it cost is paid again."""
        body = given(configuration=configuration)
        return value_of(Done, self._server.ask("restartBatch", id=id, body=body))

    def replan(self, id: BatchId, *, configuration: Mapping[str, Any], note: str | None = None) -> Done:
        """Give the jobs of a batch that have not begun another configuration; the others go on under theirs."""
        body = {"configuration": configuration, **given(note=note)}
        return value_of(Done, self._server.ask("replanBatch", id=id, body=body))

    def cohorts(self, id: BatchId) -> list[Cohort]:
        """The configurations of a batch, and how the jobs went that ran under each; a configuration is empty where the
        key may not see content.
        """
        found = (self._server.ask("listCohorts", id=id))["cohorts"]
        return values_of(Cohort, [{**each, "configuration": each.get("configuration") or {}} for each in found])

    def release(self, id: BatchId) -> Batch:
        """Let the jobs be taken that a pilot holds. Idempotent."""
        return _batch(self._server.ask("releaseBatch", id=id))

    def pause(self, id: BatchId, *, reason: str = "person") -> Batch:
        """Pause a batch: none of its jobs is claimed, and running jobs are released after their current step."""
        return _batch(self._server.ask("pauseBatch", id=id, body={"reason": reason}))

    def cancel(self, id: BatchId, *, reason: str = "person") -> Batch:
        """Stop a batch: waiting jobs end now, running jobs within a heartbeat; finished jobs stay."""
        return _batch(self._server.ask("cancelBatch", id=id, body={"reason": reason}))

    def change(self, id: BatchId, *, epoch: int | None = None, **changes: Unpack[Changing]) -> Batch:
        """Change the name, limit, budget or labels of a batch; refused when it has changed since *epoch*."""
        body = {name: str(value) if isinstance(value, Decimal) else value for name, value in changes.items()}
        return _batch(self._server.ask("changeBatch", id=id, body={**body, **given(epoch=epoch)}))

    def carry_out(self, operation: int, *, batch: BatchId, every: float = 0.5) -> Iterator[Operation]:
        """Yield how far an operation on a large batch has come, until it is over; the server carries it out."""
        while True:
            found = next((each for each in self.operations(batch) if each.id == operation), None)
            if found is None:
                return
            yield found
            if found.finished:
                return
            self._server.sleep(every)


def _batch(told: Mapping[str, Any]) -> Batch:
    return value_of(Batch, {**told, "configuration": told.get("configuration") or {}})
