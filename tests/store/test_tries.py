"""Sign-ins that failed: counted before they are compared, for the name and for the address."""

from __future__ import annotations

from store_hand import Hand

from retoma.store import tries
from retoma.store.tries import Counted

NAME, ADDRESS = Counted("name:a", 2, 86_400.0), Counted("address:1", 4, 3600.0)


def tried(db: Hand, *counted: Counted) -> float | None:
    return db.ask(tries.begin(counted or (NAME, ADDRESS), first=30.0, longest=100.0))[0]


def failures(db: Hand) -> dict[str, int]:
    return dict(db.sql("select subject, failures from retoma.tries"))  # type: ignore[arg-type]


def later(db: Hand) -> None:
    """Every wait is over."""
    db.sql("update retoma.tries set refused_until = now() where refused_until is not null")


class TestBegin:
    def test_the_first_are_free_and_each_further_one_doubles_the_wait(self, db: Hand) -> None:
        waits = []
        for _ in range(5):
            assert tried(db) is None
            waits.append(tried(db, NAME) if failures(db)["name:a"] >= 2 else None)
            later(db)

        assert waits[0] is None
        assert [round(wait) for wait in waits[1:] if wait is not None] == [30, 60, 100, 100]

    def test_who_is_refused_is_not_counted_and_locks_nobody_else(self, db: Hand) -> None:
        for _ in range(4):
            tried(db, ADDRESS)

        refused = tried(db)

        assert refused is not None
        assert failures(db) == {"address:1": 4}

    def test_what_failed_long_ago_is_forgotten(self, db: Hand) -> None:
        tried(db)
        tried(db)
        db.sql("update retoma.tries set last_at = now() - interval '2 days', refused_until = null")

        assert tried(db) is None
        assert failures(db) == {"name:a": 1, "address:1": 1}


class TestRight:
    def test_the_name_starts_anew_and_the_address_is_as_before(self, db: Hand) -> None:
        tried(db, ADDRESS)
        tried(db)

        db.ask(tries.right("name:a", "address:1", free=4))

        assert failures(db) == {"address:1": 1}


class TestRefused:
    def test_it_says_who_must_wait_and_how_long(self, db: Hand) -> None:
        tried(db)
        assert db.ask(tries.refused(["name:a", "address:1"])) == []
        tried(db)

        [refused] = db.ask(tries.refused(["name:a", "address:1"]))

        assert (refused.subject, round(refused.seconds)) == ("name:a", 30)


class TestForget:
    def test_a_name_that_is_forgotten_may_try_again(self, db: Hand) -> None:
        tried(db)
        tried(db)

        assert db.ask(tries.forget("name:a")) == ["name:a"]
        assert tried(db) is None


class TestPrune:
    def test_what_is_old_goes(self, db: Hand) -> None:
        tried(db)
        assert db.ask(tries.prune(3600.0)) == []
        db.sql("update retoma.tries set last_at = now() - interval '2 hours'")

        assert sorted(db.ask(tries.prune(3600.0))) == ["address:1", "name:a"]
