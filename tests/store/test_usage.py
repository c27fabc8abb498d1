"""What callers use: counted in one row each, all or nothing, and anew every day."""

from __future__ import annotations

from store_hand import Hand

from retoma.store import usage
from retoma.store.usage import Spent


def spend(db: Hand, bytes: int, files: int = 0, *, most: int | None = 100, most_files: int | None = None) -> bool:
    return bool(db.ask(usage.spend("k1", bytes, files, most_bytes=most, most_files=most_files)))


def spent(db: Hand) -> Spent:
    return db.ask(usage.spent("k1"))[0]


class TestSpend:
    def test_it_takes_all_or_nothing(self, db: Hand) -> None:
        assert [spend(db, 60), spend(db, 60), spend(db, 40), spend(db, 1)] == [True, False, True, False]
        assert spent(db).bytes == 100

    def test_what_is_more_than_a_whole_day_is_refused_before_there_is_a_row(self, db: Hand) -> None:
        assert not spend(db, 101)
        assert not spend(db, 0, 3, most_files=2)
        assert (spent(db).bytes, spent(db).files) == (0, 0)

    def test_what_was_not_used_is_given_back_and_never_more(self, db: Hand) -> None:
        spend(db, 60)

        assert spend(db, -50)
        assert spent(db).bytes == 10
        assert spend(db, -50)
        assert spent(db).bytes == 0

    def test_without_a_limit_it_only_counts(self, db: Hand) -> None:
        assert spend(db, 10**12, 5, most=None)
        assert (spent(db).bytes, spent(db).files) == (10**12, 5)

    def test_a_new_day_begins_with_nothing(self, db: Hand) -> None:
        spend(db, 90, 3)
        db.sql("update retoma.usage set day = day - 1")

        assert spent(db).bytes == 0
        assert spend(db, 90, 1)
        assert (spent(db).bytes, spent(db).files) == (90, 1)


class TestSpent:
    def test_it_says_when_the_next_day_begins(self, db: Hand) -> None:
        assert 0 < spent(db).seconds <= 86_400


class TestSubmitted:
    def test_the_same_is_noted_once(self, db: Hand) -> None:
        assert len(db.ask(usage.submitted("k1", "job", [1, 2]))) == 2
        assert len(db.ask(usage.submitted("k1", "job", [2, 3]))) == 1


class TestWaiting:
    def test_what_is_not_there_any_more_is_forgotten(self, db: Hand) -> None:
        db.ask(usage.submitted("k1", "job", [1, 2]))
        db.ask(usage.submitted("k1", "batch", [1]))

        assert db.ask(usage.waiting("k1", most=10)) == [0]
        assert db.sql("select from retoma.submissions") == []


class TestHold:
    def test_it_can_be_held(self, db: Hand) -> None:
        assert db.ask(usage.hold("k1")) == [True]
