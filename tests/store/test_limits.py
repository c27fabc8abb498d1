"""What providers allow: taken in slices by all workers together, and never more than is allowed."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import psycopg
import pytest
from store_hand import Hand

from retoma.model.call import Grant
from retoma.store import limits

NAME = "openai/gpt"


@pytest.fixture(autouse=True)
def _no_limits(db: Hand) -> None:
    db.sql("delete from retoma.limits; delete from retoma.permits")


def take(
    db: Hand,
    worker: int,
    requests: float = 1,
    tokens: float = 10,
    *,
    busy: int = 0,
    places: int = 10,
    horizon: float = 0.0,
    back: tuple[str, float, float] = ("", 0, 0),
) -> Grant:
    query = limits.take(
        NAME,
        worker_id=worker,
        requests=requests,
        least_tokens=tokens / requests,
        places=places,
        busy=busy,
        back=back,
        horizon=horizon,
    )
    return db.ask(query)[0]


def put(db: Hand, requests: int | None = None, tokens: int | None = None, at_once: int | None = None) -> None:
    db.ask(limits.put(NAME, requests=requests, tokens=tokens, at_once=at_once))


def age(db: Hand, seconds: float) -> None:
    db.sql(
        "update retoma.limits set refilled_at = refilled_at - make_interval(secs => %(seconds)s),"
        " cooled_until = cooled_until - make_interval(secs => %(seconds)s),"
        " opened_until = opened_until - make_interval(secs => %(seconds)s),"
        " probing_until = probing_until - make_interval(secs => %(seconds)s)",
        seconds=seconds,
    )


def tick(db: Hand) -> None:
    """A tenth of a second passes."""
    db.sql("update retoma.limits set refilled_at = clock_timestamp() - interval '0.1 second'")


def a_minute(db: Hand, each: Callable[[], float]) -> tuple[float, float]:
    """What *each* gave in a minute of small steps, and the minutes that passed, with those the test itself took."""
    began, got = time.monotonic(), 0.0
    for _ in range(600):
        got += each()
        tick(db)
    return got, 1 + (time.monotonic() - began) / 60


class TestTake:
    def test_a_name_that_nobody_knows_gives_nothing(self, db: Hand) -> None:
        assert db.ask(limits.take("x", worker_id=1, requests=1, least_tokens=1, places=1, busy=0)) == []

    def test_the_narrowest_name_that_is_limited_counts_and_else_the_narrowest(self, db: Hand) -> None:
        names = ("openai/gpt/key", "openai/gpt", "openai")

        def found() -> list[str]:
            query = limits.take(*names, worker_id=1, requests=1, least_tokens=1, places=1, busy=0)
            return [each.name for each in db.ask(query)]

        assert found() == []
        for name, requests in (("openai/gpt/key", None), ("openai", 60), ("openai/gpt", 60), ("openai/gpt/key", 60)):
            db.ask(limits.put(name, requests=requests, tokens=None, at_once=None))
            assert found() == [name]
        db.ask(limits.put("openai/gpt", requests=None, tokens=None, at_once=None))
        db.ask(limits.put("openai/gpt/key", requests=None, tokens=None, at_once=None))
        assert found() == ["openai"], "what is limited no more does not count"

    def test_without_a_limit_as_much_is_given_as_was_asked_for(self, db: Hand) -> None:
        put(db)

        assert take(db, 1, 7, 700) == Grant(7, 700, 10, 0, None, probe=False, seated=False, counted=False, name=NAME)

    def test_no_minute_sees_more_requests_than_are_allowed(self, db: Hand) -> None:
        put(db, requests=100)
        got, minutes = a_minute(db, lambda: take(db, 1, 10).requests)

        assert 90 <= got <= 100 * (0.025 + 0.95 * minutes)

    def test_no_minute_sees_more_tokens_than_are_allowed(self, db: Hand) -> None:
        put(db, tokens=10_000)
        got, minutes = a_minute(db, lambda: take(db, 1, 1, 100).tokens)

        assert 9_000 <= got <= 10_000 * (0.025 + 0.95 * minutes)

    @pytest.mark.parametrize("requests", [1, 2, 6, 19])
    def test_also_a_small_allowance_is_given_and_never_passed(self, db: Hand, requests: int) -> None:
        put(db, requests=requests)
        got, minutes = a_minute(db, lambda: take(db, 1).requests)

        assert max(1, requests // 2) <= got <= 1 + max(requests - 1, requests / 2) * minutes

    def test_an_empty_bucket_says_how_long_to_wait(self, db: Hand) -> None:
        put(db, requests=60)
        while (got := take(db, 1)).requests:
            pass
        wait = got.wait

        assert 0 < wait <= 60 / 57
        age(db, wait + 0.01)
        assert take(db, 1).requests == 1

    def test_a_request_that_is_larger_than_the_bucket_passes_when_it_is_full_and_is_owed(self, db: Hand) -> None:
        put(db, tokens=1000)

        assert take(db, 1, 1, 500).tokens == 500
        owed = take(db, 1, 1, 10)
        assert owed.requests == 0
        assert owed.wait > 20, "475 tokens at 950 a minute"

    def test_a_request_may_be_given_a_moment_ahead_and_the_next_a_moment_later(self, db: Hand) -> None:
        put(db, requests=600)
        while not (first := take(db, 1, horizon=1.0)).wait:
            pass
        later = [take(db, 2, horizon=1.0) for _ in range(12)]

        given = [first.wait, *(each.wait for each in later if each.requests)]
        assert given == sorted(given), "each after the one before"
        assert len(given) in (9, 10, 11), "those of one second: 570 in a minute"
        assert given[-1] <= 1.0
        assert all(each.wait > 1.0 for each in later if not each.requests)

    def test_what_is_given_ahead_is_not_given_again(self, db: Hand) -> None:
        put(db, requests=100)
        got, minutes = a_minute(db, lambda: take(db, 1, 10, horizon=1.0).requests)

        assert 90 <= got <= 100 * (0.025 + 0.95 * (minutes + 1 / 60))

    def test_who_is_sent_away_is_given_a_turn_after_those_before(self, db: Hand) -> None:
        put(db, requests=60)
        while (got := take(db, 1)).requests:
            pass
        turns = [got.wait, *(take(db, 1).wait for _ in range(5))]

        apart = [after - before for before, after in pairwise(turns)]
        assert all(0.3 < each < 1.0 for each in apart), "a little less than the 1.05 s that one request takes"

    def test_nobody_is_sent_away_for_longer_than_the_longest(self, db: Hand) -> None:
        put(db, requests=10)
        waits = [take(db, 1).wait for _ in range(40)]

        assert 29 < max(waits) <= 30

    def test_what_was_left_of_the_last_slice_comes_back_with_the_next_question(self, db: Hand) -> None:
        put(db, requests=100)
        first = take(db, 1, 5).requests

        assert take(db, 1).requests == 0
        assert take(db, 1, 5, back=("another", first, 0)).requests == 0, "it was of another limit"
        assert take(db, 1, 5, back=(NAME, first, 0)).requests == first

    def test_at_once_counts_over_all_workers_that_are_alive(self, db: Hand) -> None:
        one, two = db.hello(), db.hello()
        put(db, at_once=3)

        assert take(db, one, places=2).places == 2
        assert take(db, two, places=5).places == 1
        assert take(db, two, busy=1, places=5).requests == 0, "its one place is taken"
        db.silence(one)
        assert take(db, two, busy=1, places=5).places == 3

    def test_where_there_is_plenty_some_is_given_for_later_and_else_nothing(self, db: Hand) -> None:
        put(db, requests=40_000)

        def given(requests: float) -> float:
            query = limits.take(NAME, worker_id=1, requests=requests, spare=50, least_tokens=1, places=9, busy=0)
            return db.ask(query)[0].requests

        assert given(2) == 50, "a tenth of a thousand is more"
        assert given(90) == 90
        put(db, requests=100)
        assert given(1) == 1

    def test_a_provider_that_cools_is_not_asked_before_its_time(self, db: Hand) -> None:
        put(db)
        db.ask(limits.cool(NAME, seconds=60, reason="429"))
        got = take(db, 1)

        assert (got.requests, got.reason) == (0, "429")
        assert 59 < got.wait <= 60
        age(db, 61)
        assert take(db, 1).requests == 1


class TestGiveBack:
    def test_what_was_not_used_serves_another(self, db: Hand) -> None:
        put(db, requests=100)
        first = take(db, 1, 5).requests
        assert take(db, 2).requests == 0
        db.ask(limits.give_back(NAME, requests=first, tokens=0))

        assert take(db, 2, 5).requests == first


class TestSit:
    def test_places_that_are_not_needed_are_for_others(self, db: Hand) -> None:
        one, two = db.hello(), db.hello()
        put(db, at_once=10)
        take(db, one, 1, places=10)
        assert take(db, two, places=5).requests == 0

        db.ask(limits.sit(NAME, one, taken=4))

        assert take(db, two, places=10).places == 6


class TestLeave:
    def test_who_leaves_holds_no_place(self, db: Hand) -> None:
        one, two = db.hello(), db.hello()
        put(db, at_once=2)
        take(db, one, places=2)
        db.ask(limits.sit(NAME, one, taken=0))

        assert take(db, two, places=2).places == 2


class TestCool:
    def test_the_later_of_two_times_counts(self, db: Hand) -> None:
        db.ask(limits.cool(NAME, seconds=60, reason="long"))
        db.ask(limits.cool(NAME, seconds=1, reason="short"))

        assert take(db, 1).wait > 50


class TestTell:
    def test_failures_in_a_row_open_the_breaker_and_one_good_call_closes_it(self, db: Hand) -> None:
        put(db)
        for _ in range(4):
            db.ask(limits.tell(NAME, good=False, reason="502"))
        assert take(db, 1).requests == 1
        db.ask(limits.tell(NAME, good=False, reason="502"))
        assert take(db, 1).requests == 0

        age(db, 6)
        probe, other = take(db, 1, 5), take(db, 2, 5)
        assert (probe.requests, probe.probe) == (1, True), "one asks whether it is back"
        assert other.requests == 0
        db.ask(limits.tell(NAME, good=True))
        assert take(db, 2, 5).requests == 5

    def test_a_probe_that_fails_makes_the_pause_longer(self, db: Hand) -> None:
        put(db)
        for _ in range(5):
            db.ask(limits.tell(NAME, good=False, reason="502"))
        first = take(db, 1).wait
        age(db, 6)
        take(db, 1)
        db.ask(limits.tell(NAME, good=False, reason="502"))

        assert take(db, 1).wait > first

    def test_failures_with_a_good_call_between_them_open_nothing(self, db: Hand) -> None:
        put(db)
        for _ in range(10):
            db.ask(limits.tell(NAME, good=False, reason="502"))
            db.ask(limits.tell(NAME, good=True))

        assert take(db, 1).requests == 1

    def test_failures_of_requests_that_were_under_way_together_count_once(self, db: Hand) -> None:
        put(db)
        for _ in range(20):
            db.ask(limits.tell(NAME, good=False, reason="502", age=1.0))

        assert [each.failures for each in db.ask(limits.all())] == [1]
        assert take(db, 1).requests == 1

    def test_what_was_sent_before_the_breaker_opened_makes_its_pause_no_longer(self, db: Hand) -> None:
        put(db)
        for _ in range(5):
            db.ask(limits.tell(NAME, good=False, reason="502"))
        for _ in range(20):
            db.ask(limits.tell(NAME, good=False, reason="502", age=1.0))

        assert 4 < take(db, 1).wait <= 5

    def test_who_closes_the_breaker_hears_of_it(self, db: Hand) -> None:
        put(db)
        for _ in range(5):
            assert db.ask(limits.tell(NAME, good=False, reason="502")) == []

        assert db.ask(limits.tell(NAME, good=True)) == [NAME]
        assert db.ask(limits.tell(NAME, good=True)) == []


class TestWake:
    def test_those_who_sleep_for_it_are_due_some_at_once_and_others_apart(self, db: Hand) -> None:
        for _ in range(30):
            db.one_job()
        db.sql("update retoma.jobs set run_at = now() + interval '171 s', reason = 'limited: openai/gpt'")
        db.sql("update retoma.jobs set reason = 'limited: another' where id = (select max(id) from retoma.jobs)")
        woken = db.ask(limits.wake(NAME, at_once=20))

        assert len(woken) == 29
        first = "(select min(run_at) from retoma.jobs)"
        assert db.value(f"select count(*) from retoma.jobs where run_at = {first}") == 20
        assert db.value(f"select count(*) from retoma.jobs where run_at < {first} + interval '1 s'") == 29

    def test_nobody_is_woken_later_than_it_would_wake(self, db: Hand) -> None:
        for _ in range(3):
            db.one_job()
        db.sql("update retoma.jobs set run_at = now() + interval '0.5 s', reason = 'limited: openai/gpt'")
        db.ask(limits.wake(NAME, after=0.0, at_once=0))

        assert db.value("select count(*) from retoma.jobs where run_at < now() + interval '0.5 s'") == 3
        assert db.ask(limits.wake(NAME, after=10.0)) == []


class TestMend:
    def test_the_places_of_those_who_are_gone_are_removed(self, db: Hand) -> None:
        alive, gone, silent = db.hello(), db.hello(), db.hello()
        put(db, at_once=9)
        for worker in (alive, gone, silent):
            take(db, worker, places=1)
        db.sql("update retoma.workers set stopped_at = now() where id = %(id)s", id=gone)
        db.silence(silent)

        assert len(db.ask(limits.mend())) == 2
        assert db.sql("select worker_id from retoma.permits") == [(alive,)]


class TestPut:
    def test_a_change_holds_from_the_next_slice_on(self, db: Hand) -> None:
        put(db)
        put(db, requests=20)

        assert take(db, 1, 10).requests == 1, "a fortieth of a minute's allowance"

    def test_who_sets_a_limit_ends_what_kept_requests_back(self, db: Hand) -> None:
        put(db, requests=60)
        db.ask(limits.cool(NAME, seconds=1e9, reason="429"))
        for _ in range(5):
            db.ask(limits.tell(NAME, good=False, reason="502"))
        assert take(db, 1).wait > 3600

        put(db, requests=6000)
        age(db, 1)

        assert take(db, 1).requests == 1

    def test_what_is_there_is_kept_when_asked(self, db: Hand) -> None:
        put(db, requests=20)
        db.ask(limits.put(NAME, requests=None, tokens=None, at_once=None, keep=True))

        assert [each.requests for each in db.ask(limits.all())] == [20]

    @pytest.mark.parametrize("wrong", [{"requests": 0}, {"tokens": -1}, {"at_once": 0}])
    def test_a_limit_of_nothing_is_refused(self, db: Hand, wrong: dict[str, int]) -> None:
        with pytest.raises(psycopg.errors.CheckViolation):
            put(db, **wrong)


class TestAll:
    def test_every_limit_is_told_with_how_it_stands(self, db: Hand) -> None:
        worker = db.hello()
        put(db, requests=60, at_once=4)
        take(db, worker, places=2)
        db.ask(limits.cool("other", seconds=60, reason="429"))

        found = {each.name: each for each in db.ask(limits.all())}
        assert (found[NAME].requests, found[NAME].under_way) == (60, 2)
        assert found["other"].cooled_until is not None


class TestStand:
    def test_what_was_used_in_the_last_minute_and_who_waits_is_told(self, db: Hand) -> None:
        put(db, requests=60, tokens=1000, at_once=4)
        for minutes in (0, 5):
            db.sql(
                "insert into retoma.calls (key, provider, model, request, input_tokens, output_tokens, asked_at) "
                "values ('k', 'openai', 'gpt', '1', 30, 4, now() - make_interval(mins => %(minutes)s))",
                minutes=minutes,
            )
        id = db.one_job()
        db.sql("update retoma.jobs set reason = 'limited: openai/gpt' where id = %(id)s", id=id)

        [found] = db.ask(limits.stand())

        assert (found.requests_used, found.tokens_used, found.waiting, found.breaker) == (1, 34, 1, "closed")

    def test_a_breaker_is_open_and_then_trying(self, db: Hand) -> None:
        put(db)
        db.sql("update retoma.limits set opened_until = now() + interval '10 s'")
        [before] = db.ask(limits.stand())
        age(db, 11)
        [after] = db.ask(limits.stand())

        assert (before.breaker, after.breaker) == ("open", "trying")


class TestRemove:
    def test_a_limit_that_was_removed_holds_nobody_back(self, db: Hand) -> None:
        put(db, requests=1)
        db.ask(limits.cool(NAME, seconds=60, reason="429"))

        assert db.ask(limits.remove(NAME)) == [NAME]
        assert db.ask(limits.stand()) == []
        assert db.ask(limits.take(NAME, worker_id=1, requests=1, least_tokens=1, places=1, busy=0)) == []
        assert db.ask(limits.remove(NAME)) == []


class TestClose:
    def test_the_breaker_closes_the_pause_ends_and_what_is_allowed_stays(self, db: Hand) -> None:
        put(db, requests=7)
        db.ask(limits.cool(NAME, seconds=60, reason="429"))
        db.sql("update retoma.limits set opened_until = now() + interval '1 hour', failures = 9")

        assert db.ask(limits.close(NAME)) == [NAME]
        [found] = db.ask(limits.stand())
        assert (found.breaker, found.cooled_until, found.failures, found.reason, found.requests) == (
            "closed", None, 0, None, 7,
        )  # fmt: skip

    def test_a_limit_that_is_not_there_is_no_row(self, db: Hand) -> None:
        assert db.ask(limits.close("nothing")) == []
