"""Sessions: whether one still opens is the database's word."""

from __future__ import annotations

import time

from store_hand import Hand

from retoma.store import keys, sessions
from retoma.store.sessions import NewSession

HOUR = 3600.0


def new(id: str = "s1", *, key: str | None = "k1", link: bytes | None = None, made: float | None = None) -> NewSession:
    opened_by = "token" if key is None else "key"
    return NewSession(id, b"hash", opened_by, key, None, None, link, made, "192.0.2.1", HOUR)


def opened(db: Hand, id: str = "s1") -> None:
    if not db.ask(keys.lock_of("k1")):
        db.ask(keys.create("k1", "mine", b"hash", scopes=["read"], pipelines=None, expires=None))
    assert db.ask(sessions.open(new(id))) == [id]


class TestOpen:
    def test_a_link_opens_one_session(self, db: Hand) -> None:
        now = time.time()

        assert db.ask(sessions.open(new("s1", key=None, link=b"link", made=now))) == ["s1"]
        assert db.ask(sessions.open(new("s2", key=None, link=b"link", made=now))) == []

    def test_a_link_that_was_printed_too_long_ago_opens_none(self, db: Hand) -> None:
        assert db.ask(sessions.open(new("s1", key=None, link=b"link", made=time.time() - 2 * HOUR))) == []


class TestLockOf:
    def test_it_says_whether_the_session_and_its_key_open(self, db: Hand) -> None:
        opened(db)
        [lock] = db.ask(sessions.lock_of("s1"))

        assert (lock.secret_hash, lock.usable, lock.opened_by) == (b"hash", True, "key")
        assert lock.key is not None
        assert (lock.key.id, lock.key.usable) == ("k1", True)
        db.sql("update retoma.sessions set expires_at = now()")
        assert not db.ask(sessions.lock_of("s1"))[0].usable
        assert db.ask(sessions.lock_of("other")) == []


class TestSeen:
    def test_it_is_written_at_most_once_a_minute(self, db: Hand) -> None:
        opened(db)

        assert db.ask(sessions.seen("s1")) == []
        db.sql("update retoma.sessions set seen_at = now() - interval '61 seconds'")
        assert db.ask(sessions.lock_of("s1"))[0].rested
        assert db.ask(sessions.seen("s1")) == ["s1"]


class TestEnd:
    def test_an_ended_session_opens_no_more_and_keeps_its_hour(self, db: Hand) -> None:
        opened(db)
        db.ask(sessions.end("s1"))
        [first] = db.ask(sessions.all(over=True))
        db.ask(sessions.end("s1"))

        assert not first.usable
        assert db.ask(sessions.all(over=True))[0].ended_at == first.ended_at
        assert db.ask(sessions.end("other")) == []


class TestAll:
    def test_those_that_are_over_are_told_when_they_are_asked_for(self, db: Hand) -> None:
        opened(db, "s1")
        opened(db, "s2")
        db.ask(sessions.end("s1"))

        assert [each.id for each in db.ask(sessions.all())] == ["s2"]
        assert {each.id for each in db.ask(sessions.all(over=True))} == {"s1", "s2"}


class TestGone:
    def test_keys_and_sessions_that_open_no_more_are_found_in_one_look(self, db: Hand) -> None:
        opened(db, "s1")
        opened(db, "s2")
        assert db.ask(sessions.gone(["k1"], ["s1", "s2"])) == []
        db.ask(sessions.end("s1"))

        assert db.ask(sessions.gone(["k1"], ["s1", "s2", "s3"])) == ["s1", "s3"]
        db.ask(keys.revoke("k1"))
        assert sorted(db.ask(sessions.gone(["k1"], ["s1", "s2"]))) == ["k1", "s1", "s2"]

    def test_an_expired_key_takes_its_sessions_along(self, db: Hand) -> None:
        opened(db)
        db.sql("update retoma.api_keys set expires_at = now()")

        assert db.ask(sessions.gone(["k1"], ["s1"])) == ["k1", "s1"]


class TestPrune:
    def test_what_expired_long_ago_goes(self, db: Hand) -> None:
        opened(db)
        assert db.ask(sessions.prune(60.0)) == []
        db.sql("update retoma.sessions set expires_at = now() - interval '2 minutes'")

        assert db.ask(sessions.prune(60.0)) == ["s1"]
