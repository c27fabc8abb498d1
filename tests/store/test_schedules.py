"""Jobs that come back by the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from store_hand import QUEUE, Hand

from retoma.store import schedules
from retoma.store.query import Query

PAST = datetime(2026, 1, 1, 4, 0, tzinfo=UTC)
FUTURE = datetime(2126, 1, 1, 4, 0, tzinfo=UTC)


def put(name: str = "nightly", **changes: Any) -> Query[str]:
    return schedules.put(
        **{
            "name": name,
            "pipeline": "tidy",
            "queue": QUEUE,
            "cron": "0 4 * * *",
            "zone": "UTC",
            "input": '{"deep": true}',
            "priority": 3,
            "max_attempts": 2,
            "timeout": 30.0,
            "next_run_at": PAST,
        }
        | changes
    )


class TestPut:
    def test_the_same_name_changes_it(self, db: Hand) -> None:
        assert db.ask(put()) == ["nightly"]
        db.ask(put(pipeline="sweep", input="1"))

        [schedule] = db.ask(schedules.all())
        assert (schedule.pipeline, schedule.input) == ("sweep", "1")

    def test_its_next_hour_stays_when_the_clock_does(self, db: Hand) -> None:
        db.ask(put(next_run_at=PAST))
        db.ask(put(next_run_at=FUTURE))

        assert db.ask(schedules.all())[0].next_run_at == PAST

    def test_its_next_hour_is_new_when_the_clock_is(self, db: Hand) -> None:
        for changes in ({"cron": "0 5 * * *"}, {"zone": "America/Sao_Paulo"}):
            db.ask(put(next_run_at=PAST))
            db.ask(put(next_run_at=FUTURE, **changes))
            assert db.ask(schedules.all())[0].next_run_at == FUTURE
            db.ask(schedules.remove("nightly"))

    def test_a_declared_one_follows_the_next_declaration(self, db: Hand) -> None:
        db.ask(put(declared=True, next_run_at=PAST))
        assert db.ask(put(declared=True, next_run_at=FUTURE)) == [], "it says the same"

        assert db.ask(put(declared=True, cron="0 5 * * *", next_run_at=FUTURE)) == ["nightly"]

        [found] = db.ask(schedules.all())
        assert (found.cron, found.next_run_at) == ("0 5 * * *", FUTURE)

    def test_a_declared_one_that_somebody_changed_stays_so_whatever_is_declared_next(self, db: Hand) -> None:
        db.ask(put(declared=True))
        db.ask(schedules.change("nightly", cron="0 5 * * *", zone="UTC", next_run_at=FUTURE))
        for cron in ("0 6 * * *", "0 7 * * *"):
            db.ask(put(declared=True, cron=cron, next_run_at=PAST))

            [found] = db.ask(schedules.all())
            assert (found.cron, found.next_run_at) == ("0 5 * * *", FUTURE)

    def test_one_that_a_person_made_is_not_changed_by_a_declaration(self, db: Hand) -> None:
        db.ask(put())
        for cron in ("0 6 * * *", "0 7 * * *"):
            db.ask(put(declared=True, cron=cron))

        assert db.ask(schedules.all())[0].cron != "0 7 * * *"

    def test_a_declared_one_stays_as_somebody_changed_it(self, db: Hand) -> None:
        assert db.ask(put(declared=True)) == ["nightly"]
        db.ask(schedules.change("nightly", cron="0 5 * * *", zone="UTC", next_run_at=FUTURE))
        db.ask(schedules.pause("nightly"))
        [before] = db.ask(schedules.all())

        assert db.ask(put(declared=True, pipeline="other", input="2")) == []

        [after] = db.ask(schedules.all())
        assert (after.cron, after.pipeline, after.input) == ("0 5 * * *", "tidy", before.input)
        assert (after.next_run_at, after.paused_at) == (FUTURE, before.paused_at)


class TestNow:
    def test_it_is_the_database_s_own_time(self, db: Hand) -> None:
        before = db.value("select clock_timestamp()")
        [now] = db.ask(schedules.now())

        assert before <= now <= db.value("select clock_timestamp()")
        assert now.tzinfo is not None


class TestChange:
    def test_it_comes_at_another_time_and_is_otherwise_the_same(self, db: Hand) -> None:
        db.ask(put())
        db.ask(put("other"))

        query = schedules.change("nightly", cron="30 6 * * 1", zone="America/Sao_Paulo", next_run_at=FUTURE)
        assert db.ask(query) == ["nightly"]

        nightly, other = db.ask(schedules.all())
        assert (nightly.cron, nightly.zone, nightly.next_run_at) == ("30 6 * * 1", "America/Sao_Paulo", FUTURE)
        assert (nightly.pipeline, nightly.input, nightly.priority) == ("tidy", '{"deep": true}', 3)
        assert (other.cron, other.next_run_at) == ("0 4 * * *", PAST)
        assert [each.name for each in db.ask(schedules.due())] == ["other"]

    def test_one_that_rests_goes_on_resting(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.pause("nightly"))
        db.ask(schedules.change("nightly", cron="0 5 * * *", zone="UTC", next_run_at=PAST))

        assert db.ask(schedules.due()) == []

    def test_one_whose_old_hour_somebody_had_seen_due_does_not_fire_for_it(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.change("nightly", cron="0 5 * * *", zone="UTC", next_run_at=FUTURE))

        assert db.ask(schedules.fire("nightly", PAST, FUTURE)) == []

    def test_a_name_that_is_not_there_is_no_row(self, db: Hand) -> None:
        assert db.ask(schedules.change("nothing", cron="0 5 * * *", zone="UTC", next_run_at=FUTURE)) == []


class TestDue:
    def test_only_those_whose_time_has_come_and_that_are_not_paused(self, db: Hand) -> None:
        db.ask(put("b"))
        db.ask(put("a", next_run_at=PAST + timedelta(days=1)))
        db.ask(put("later", next_run_at=FUTURE))
        db.ask(put("paused"))
        db.ask(schedules.pause("paused"))

        due = db.ask(schedules.due())

        assert [each.name for each in due] == ["b", "a"]
        assert due[0].now.tzinfo is not None


class TestFire:
    def test_the_job_is_queued_and_the_clock_moves_on(self, db: Hand) -> None:
        db.ask(put())

        [id] = db.ask(schedules.fire("nightly", PAST, FUTURE))

        job = db.job(id)
        assert (job.pipeline, job.queue, job.input, job.priority) == ("tidy", QUEUE, '{"deep": true}', 3)
        assert (job.max_attempts, job.timeout_seconds, job.state) == (2, 30.0, "queued")
        [schedule] = db.ask(schedules.all())
        assert schedule.next_run_at == FUTURE
        assert schedule.last_run_at is not None

    def test_it_fires_once_for_each_hour(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.fire("nightly", PAST, FUTURE))

        assert db.ask(schedules.fire("nightly", PAST, FUTURE)) == []
        assert db.value("select count(*) from retoma.jobs") == 1

    def test_one_that_was_removed_and_put_again_does_not_repeat_its_hour(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.fire("nightly", PAST, FUTURE))
        db.ask(schedules.remove("nightly"))
        db.ask(put())

        assert db.ask(schedules.fire("nightly", PAST, FUTURE)) == []
        assert db.value("select count(*) from retoma.jobs") == 1

    def test_an_hour_is_the_same_hour_on_the_clocks_of_every_session(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.fire("nightly", PAST, FUTURE))
        db.ask(schedules.remove("nightly"))
        db.ask(put())
        db.sql("set time zone 'America/Sao_Paulo'")

        assert db.ask(schedules.fire("nightly", PAST, FUTURE)) == []
        assert db.value("select count(*) from retoma.jobs") == 1

    def test_a_paused_one_does_not_fire(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.pause("nightly"))

        assert db.ask(schedules.fire("nightly", PAST, FUTURE)) == []

    def test_one_whose_hour_was_changed_meanwhile_does_not_fire(self, db: Hand) -> None:
        db.ask(put(next_run_at=PAST + timedelta(hours=1)))

        assert db.ask(schedules.fire("nightly", PAST, FUTURE)) == []


class TestRunNow:
    def test_the_job_is_queued_and_the_clock_goes_on_as_it_was(self, db: Hand) -> None:
        db.ask(put(next_run_at=FUTURE))

        ids = [db.ask(schedules.run_now("nightly"))[0] for _ in range(2)]

        assert len(set(ids)) == 2
        assert db.sql("select id from retoma.jobs where pipeline = 'tidy' order by id") == [(id,) for id in ids]
        assert db.ask(schedules.all())[0].next_run_at == FUTURE

    def test_a_name_that_is_not_there_queues_nothing(self, db: Hand) -> None:
        assert db.ask(schedules.run_now("nothing")) == []


class TestPause:
    def test_the_first_hour_stays(self, db: Hand) -> None:
        db.ask(put())
        assert db.ask(schedules.pause("nightly")) == ["nightly"]
        before = db.ask(schedules.all())[0].paused_at

        db.ask(schedules.pause("nightly"))

        assert before is not None
        assert db.ask(schedules.all())[0].paused_at == before

    def test_a_name_that_is_not_there_is_no_row(self, db: Hand) -> None:
        assert db.ask(schedules.pause("nothing")) == []


class TestResume:
    def test_it_goes_on_with_the_next_hour_and_not_with_those_that_passed(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.pause("nightly"))

        assert db.ask(schedules.resume("nightly", FUTURE)) == ["nightly"]

        [schedule] = db.ask(schedules.all())
        assert (schedule.paused_at, schedule.next_run_at) == (None, FUTURE)
        assert db.ask(schedules.due()) == []


class TestRemove:
    def test_it_is_gone_and_its_jobs_stay(self, db: Hand) -> None:
        db.ask(put())
        [id] = db.ask(schedules.run_now("nightly"))

        assert db.ask(schedules.remove("nightly")) == ["nightly"]
        assert db.ask(schedules.remove("nightly")) == []
        assert db.ask(schedules.all()) == []
        assert db.state(id) == "queued"


class TestAll:
    def test_by_name_with_the_database_s_clock(self, db: Hand) -> None:
        for name in ("b", "a"):
            db.ask(put(name))

        every = db.ask(schedules.all())

        assert [each.name for each in every] == ["a", "b"]
        assert (every[0].cron, every[0].zone, every[0].last_run_at) == ("0 4 * * *", "UTC", None)
        assert every[0].now.tzinfo is not None


class TestRuns:
    def test_what_the_clock_and_a_person_queued_is_told_with_its_state(self, db: Hand) -> None:
        db.ask(put())
        [fired] = db.ask(schedules.fire("nightly", PAST, FUTURE))
        [asked] = db.ask(schedules.run_now("nightly"))

        found = db.ask(schedules.runs())

        assert [(each.job_id, each.by_hand, each.state) for each in found] == [
            (asked, True, "queued"), (fired, False, "queued"),
        ]  # fmt: skip

    def test_the_newest_twenty_are_kept_and_a_removed_schedule_leaves_none(self, db: Hand) -> None:
        db.ask(put())
        ids = [db.ask(schedules.run_now("nightly"))[0] for _ in range(23)]

        assert [each.job_id for each in db.ask(schedules.runs(each=100))] == ids[:-21:-1]
        db.ask(schedules.remove("nightly"))
        assert db.sql("select * from retoma.schedule_runs") == []

    def test_a_job_that_was_pruned_has_no_state(self, db: Hand) -> None:
        db.ask(put())
        db.ask(schedules.run_now("nightly"))
        db.sql("delete from retoma.jobs")

        assert [each.state for each in db.ask(schedules.runs())] == [None]
