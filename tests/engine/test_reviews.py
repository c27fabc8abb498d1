"""The review desk: what waits for a person is decided once, and can be undone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from retoma import Retoma, Review, Run, pipeline
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.review import DecisionKind
from retoma.telemetry import Event
from retoma.telemetry.events import ReviewDecided
from retoma.testing import drain


@dataclass(frozen=True, slots=True)
class Kind:
    """What a letter is."""

    label: str
    page: int = 1


@pipeline("sort")
async def sort(margin: float, _run: Run) -> Kind:
    """Every letter needs a person, unless its margin is 1."""
    if margin == 1:
        return Kind("ruling")
    raise Review(
        Kind("petition"),
        "two kinds are likely",
        margin=margin,
        confidence=0.5 + margin / 2,
        label="petition",
        choices={"petition": Kind("petition"), "ruling": Kind("ruling")},
        text="Dear judge, I ask for a hearing.",
        passage="I ask for",
        version="v1",
    )


@pytest.fixture
async def app(app_with: Any) -> Retoma:
    return await app_with(sort)


async def _batch(app: Retoma, *margins: float) -> int:
    batch = await app.batch(sort, margins, name="letters")
    await drain(app)
    return batch.id


async def test_the_lowest_margin_comes_first_with_what_decided_it(app: Retoma) -> None:
    await _batch(app, 0.3, 0.1, 0.2)

    first, second = await app.reviews.next("ana", limit=2)

    assert [first.review.margin, second.review.margin] == [pytest.approx(0.1), pytest.approx(0.2)]
    assert first.evidence.text == "Dear judge, I ask for a hearing."
    assert first.evidence.passage == "I ask for"
    assert [(each.label, each.value["label"]) for each in first.evidence.choices] == [
        ("petition", "petition"),
        ("ruling", "ruling"),
    ]
    assert (first.review.label, first.review.version, first.review.reason) == ("petition", "v1", "two kinds are likely")


async def test_an_accepted_proposal_is_the_output_of_the_job(app: Retoma, heard: list[Event]) -> None:
    batch = await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")

    decision = await app.reviews.accept(each.review.id, "ana", note="clear", seconds=2.5)

    job = await app.jobs.get(each.review.job_id)
    assert (job.state, job.reason) == ("completed", None)
    assert await app.jobs.output(sort, job.id) == Kind("petition")
    assert (decision.kind, decision.who, decision.note, decision.seconds) == ("accept", "ana", "clear", 2.5)
    assert (decision.label, decision.version, decision.batch_id) == ("petition", "v1", batch)
    assert decision.confidence == pytest.approx(0.55)
    counted = await app.batches.progress(batch)
    assert (counted.state, counted.completed, counted.review) == ("completed", 1, 0)
    assert [event.kind for event in heard if isinstance(event, ReviewDecided)] == ["accept"]
    assert await app.system.verify() == []


async def test_a_correction_is_checked_against_the_output_type(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")

    with pytest.raises(ConfigurationError, match="not an output of 'sort': page"):
        await app.reviews.correct(each.review.id, {"label": "ruling", "page": "many"}, "ana")
    decision = await app.reviews.correct(each.review.id, {"label": "ruling", "page": 3}, "ana", label="ruling")

    assert await app.jobs.output(sort, each.review.job_id) == Kind("ruling", 3)
    assert (decision.kind, decision.decided_label) == (DecisionKind.CORRECT, "ruling")
    assert len(await app.reviews.decisions()) == 1


async def test_a_rejected_job_fails_with_the_person_and_the_reason(app: Retoma) -> None:
    batch = await _batch(app, 0.1, 1)
    [each] = await app.reviews.next("key:1")

    await app.reviews.reject(each.review.id, "key:1", name="Ana", note="illegible")

    job = await app.jobs.get(each.review.job_id)
    assert (job.state, job.reason, job.error) == ("failed", "rejected", "Ana rejected it in review: illegible")
    assert (await app.batches.progress(batch)).failed == 1


async def test_a_job_that_is_sent_back_is_tried_again_and_comes_back_to_the_desk(app: Retoma) -> None:
    batch = await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")

    decision = await app.reviews.reject(each.review.id, "ana", retry=True)
    queued = await app.jobs.get(each.review.job_id)
    running = await app.batches.get(batch)
    await drain(app)
    [again] = await app.reviews.next("ana")

    assert (decision.kind, queued.state, running.state) == ("retry", "queued", "running")
    assert again.review.job_id == each.review.job_id
    assert again.review.fence == queued.fence + 1


async def test_the_same_key_is_the_same_decision(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")

    first = await app.reviews.accept(each.review.id, "ana", key="k1")
    again = await app.reviews.accept(each.review.id, "ana", key="k1")

    assert again == first
    assert len(await app.reviews.decisions()) == 1
    with pytest.raises(Conflict, match="The key of this decision was used for another one: accept on review"):
        await app.reviews.reject(each.review.id, "ana", key="k1")


async def test_a_second_decision_is_told_who_decided_what_and_when(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")
    first = await app.reviews.accept(each.review.id, "key:1", name="Ana", holder="ana")

    with pytest.raises(Conflict) as refused:
        await app.reviews.reject(each.review.id, "bia")

    assert "Ana chose accept at " + first.at.isoformat(timespec="seconds") in str(refused.value)
    assert (await app.jobs.get(each.review.job_id)).state == "completed"


async def test_two_people_never_get_the_same_one(app: Retoma) -> None:
    await _batch(app, *(each / 100 for each in range(1, 21)))

    got = await asyncio.gather(*(app.reviews.next(f"person {n}", limit=5) for n in range(4)))

    ids = [each.review.id for some in got for each in some]
    assert len(ids) == len(set(ids)) == 20
    assert await app.reviews.next("nobody else") == []


async def test_who_asks_again_gets_what_they_have(app: Retoma) -> None:
    await _batch(app, 0.1, 0.2, 0.3)

    first = await app.reviews.next("ana", limit=2)
    again = await app.reviews.next("ana", limit=2)

    assert [each.review.id for each in again] == [each.review.id for each in first]


async def test_what_somebody_else_looks_at_cannot_be_decided(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")

    with pytest.raises(Conflict, match="is being looked at by somebody else until"):
        await app.reviews.accept(each.review.id, "bia")


async def test_a_lease_that_ended_gives_the_review_to_the_next_person(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")
    await _age_leases(app)

    [other] = await app.reviews.next("bia")

    assert other.review.id == each.review.id
    assert await app.reviews.renew("ana") == []
    with pytest.raises(Conflict, match="somebody else"):
        await app.reviews.accept(each.review.id, "ana")
    assert (await app.reviews.accept(each.review.id, "bia")).who == "bia"


async def test_a_renewed_lease_begins_anew(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana", seconds=20)

    kept = await app.reviews.renew("ana", [each.review.id], seconds=600)

    now = await app.reviews.get(each.review.id)
    assert kept == [each.review.id]
    assert (now.review.leased_until - each.review.leased_until).total_seconds() > 500


async def test_what_is_skipped_comes_back_after_all_others(app: Retoma) -> None:
    await _batch(app, 0.1, 0.2)
    [first] = await app.reviews.next("ana")

    assert await app.reviews.skip(first.review.id, "ana")
    [second] = await app.reviews.next("ana")
    await app.reviews.accept(second.review.id, "ana")
    [third] = await app.reviews.next("ana")

    assert second.review.id != first.review.id
    assert third.review.id == first.review.id
    assert not await app.reviews.skip(first.review.id, "bia")


@pytest.mark.parametrize("kind", ["accept", "correct", "reject", "retry"])
async def test_an_undone_decision_brings_the_job_back_to_review(app: Retoma, kind: str) -> None:
    batch = await _batch(app, 0.1, 1)
    before = await app.batches.progress(batch)
    [each] = await app.reviews.next("ana")
    id = each.review.id
    match kind:
        case "accept":
            decision = await app.reviews.accept(id, "ana")
        case "correct":
            decision = await app.reviews.correct(id, {"label": "ruling"}, "ana")
        case _:
            decision = await app.reviews.reject(id, "ana", retry=kind == "retry")

    undone = await app.reviews.undo("ana", key="u1")

    job, now = await app.jobs.get(each.review.job_id), await app.batches.progress(batch)
    assert (undone.kind, undone.undoes) == ("undo", decision.id)
    assert (job.state, job.reason, job.error) == ("review", "two kinds are likely", None)
    assert '"petition"' in (job.output or "")
    assert (now.state, now.completed, now.failed, now.review, now.queued) == (
        before.state,
        before.completed,
        before.failed,
        before.review,
        before.queued,
    )
    assert await app.reviews.undo("ana", key="u1") == undone
    [again] = await app.reviews.next("ana")
    assert again.review.id == id
    assert (await app.reviews.accept(id, "ana")).kind == "accept"
    assert await app.system.verify() == []


async def test_only_whoever_decided_undoes_and_only_while_the_job_is_as_they_left_it(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")
    decision = await app.reviews.reject(each.review.id, "ana")

    with pytest.raises(NotFound, match="no decision of yours"):
        await app.reviews.undo("bia")
    with pytest.raises(NotFound, match=f"no decision {decision.id} of yours"):
        await app.reviews.undo("bia", decision.id)
    await app.jobs.retry(each.review.job_id)
    with pytest.raises(Conflict, match=f"job {each.review.job_id} is queued now"):
        await app.reviews.undo("ana")


async def test_a_job_that_was_retried_waits_at_the_desk_no_more(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")

    await app.jobs.retry(each.review.job_id)

    assert await app.reviews.find() == []
    assert await app.reviews.counts() == []
    with pytest.raises(Conflict, match=f"job {each.review.job_id} is queued"):
        await app.reviews.accept(each.review.id, "ana")
    assert await app.reviews.decisions() == []


async def test_reviews_are_found_by_batch_label_and_pipeline(app: Retoma) -> None:
    one, two = await _batch(app, 0.3), await _batch(app, 0.1, 0.2)

    found = await app.reviews.find(batch_id=two)

    assert [each.batch_id for each in found] == [two, two]
    assert [each.margin for each in await app.reviews.find(after=(found[0].margin, found[0].id))] == [
        pytest.approx(0.2),
        pytest.approx(0.3),
    ]
    assert await app.reviews.find(label="ruling") == []
    assert await app.reviews.find(pipelines=("other",)) == []
    assert [(each.label, each.waiting, each.taken) for each in await app.reviews.counts(batch_id=one)] == [
        ("petition", 1, 0)
    ]
    assert [each.review.batch_id for each in await app.reviews.next("ana", batch_id=one)] == [one]


async def test_agreement_counts_what_stands_by_label_version_and_confidence(app: Retoma) -> None:
    await _batch(app, 0.1, 0.2, 0.3, 0.9)
    some = await app.reviews.next("ana", limit=4)
    for each in some[:2]:
        await app.reviews.accept(each.review.id, "ana")
    await app.reviews.correct(some[2].review.id, {"label": "ruling"}, "ana", label="ruling")
    await app.reviews.accept(some[3].review.id, "ana")
    await app.reviews.undo("ana")

    found = await app.reviews.agreement()

    assert (found.decided, found.agreed) == (3, 2)
    [label] = found.by_label()
    assert (label.label, label.version, label.decided, label.agreed) == ("petition", "v1", 3, 2)
    assert [(each.tenth, each.decided, each.agreed) for each in found.by_tenth()] == [(5, 1, 1), (6, 2, 1)]


async def test_every_decision_is_exported_with_its_undoing(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")
    await app.reviews.accept(each.review.id, "ana")
    await app.reviews.undo("ana")

    rows = [row async for row in app.reviews.export()]

    assert [row.kind for row in rows] == ["accept", "undo"]
    assert rows[0].undone_by == rows[1].id


async def test_a_decision_rolls_back_with_the_callers_transaction(app: Retoma) -> None:
    await _batch(app, 0.1)
    [each] = await app.reviews.next("ana")

    async def changes_their_mind() -> None:
        async with app.transaction() as conn:
            await app.reviews.accept(each.review.id, "ana", conn=conn)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await changes_their_mind()

    assert await app.reviews.decisions() == []
    assert (await app.jobs.get(each.review.job_id)).state == "review"


async def _age_leases(app: Retoma) -> None:
    async with app.transaction() as conn:
        await conn.execute("update retoma.reviews set leased_until = now() - interval '1 second'")
