"""Accounts: what takes something from one also ends its sessions."""

from __future__ import annotations

import pytest
from store_hand import Hand

from retoma.store import sessions, users
from retoma.store.query import Query
from retoma.store.sessions import NewSession


def added(db: Hand, id: str = "u1", name: str = "ana", role: str = "admin") -> None:
    assert [each.id for each in db.ask(users.add(id, name, role, "hash"))] == [id]


def signed(db: Hand, id: str = "u1", session: str = "s1") -> None:
    assert db.ask(sessions.open(NewSession(session, b"hash", "user", None, id, None, None, None, "192.0.2.1", 60.0)))


class TestAdd:
    def test_of_two_that_take_a_name_the_second_gets_nothing(self, db: Hand) -> None:
        added(db)

        assert db.ask(users.add("u2", "ana", "reader", "hash")) == []


class TestAll:
    def test_it_lists_those_that_are_there_by_name(self, db: Hand) -> None:
        added(db, "u1", "rui")
        added(db, "u2", "ana")
        added(db, "u3", "eva")
        db.ask(users.remove("u3"))

        assert [(each.id, each.has_password) for each in db.ask(users.all())] == [("u2", True), ("u1", True)]


class TestFind:
    def test_by_id_and_by_name(self, db: Hand) -> None:
        added(db)

        assert [each.id for who in ("u1", "ana", "eva") for each in db.ask(users.find(who))] == ["u1", "u1"]


class TestLockOf:
    def test_it_has_the_hash_of_a_name_that_is_there(self, db: Hand) -> None:
        added(db)

        [lock] = db.ask(users.lock_of("ana"))

        assert (lock.password_hash, lock.user.role) == ("hash", "admin")
        assert db.ask(users.lock_of("eva")) == []


class TestArrive:
    def test_an_identity_keeps_its_account_and_takes_the_role_that_is_said(self, db: Hand) -> None:
        [first] = db.ask(users.arrive("u1", "ana", "reader", issuer="https://i", subject="7"))
        [again] = db.ask(users.arrive("u2", "other", "admin", issuer="https://i", subject="7"))

        assert (again.id, again.name, again.role, again.has_password) == (first.id, "ana", "admin", False)

    def test_a_name_that_another_account_has_stays_with_it(self, db: Hand) -> None:
        added(db)

        assert db.ask(users.arrive("u2", "ana", "admin", issuer="https://i", subject="7")) == []


class TestSignedIn:
    def test_a_locked_account_does_not_sign_in(self, db: Hand) -> None:
        added(db)
        assert db.ask(users.signed_in("u1")) == ["u1"]
        db.ask(users.lock("u1"))

        assert db.ask(users.signed_in("u1")) == []


class TestRehash:
    def test_a_password_that_changed_meanwhile_stays(self, db: Hand) -> None:
        added(db)

        assert db.ask(users.rehash("u1", "newer", before="other")) == []
        assert db.ask(users.rehash("u1", "newer", before="hash")) == ["u1"]
        assert db.ask(users.lock_of("ana"))[0].password_hash == "newer"


def ends(db: Hand, change: Query[str]) -> None:
    added(db)
    signed(db)
    lock = db.ask(sessions.lock_of("s1"))[0]
    assert lock.user is not None
    assert (lock.usable, lock.user.name) == (True, "ana")

    assert db.ask(change) == ["u1"]

    assert not db.ask(sessions.lock_of("s1"))[0].usable
    assert db.ask(sessions.gone([], ["s1"])) == ["s1"]


class TestSetRole:
    def test_its_sessions_end(self, db: Hand) -> None:
        ends(db, users.set_role("u1", "reader"))
        assert db.ask(users.all())[0].role == "reader"


class TestSetPassword:
    def test_its_sessions_end(self, db: Hand) -> None:
        ends(db, users.set_password("u1", "other"))
        assert db.ask(users.lock_of("ana"))[0].password_hash == "other"


class TestLock:
    def test_its_sessions_end(self, db: Hand) -> None:
        ends(db, users.lock("u1"))
        assert db.ask(sessions.lock_of("s1"))[0].user is None


class TestUnlock:
    def test_it_may_sign_in_again(self, db: Hand) -> None:
        added(db)
        db.ask(users.lock("u1"))

        assert db.ask(users.unlock("u1")) == ["u1"]
        assert db.ask(users.signed_in("u1")) == ["u1"]


class TestRemove:
    def test_its_sessions_end_and_its_secret_goes(self, db: Hand) -> None:
        ends(db, users.remove("u1"))
        assert db.ask(users.lock_of("ana")) == []
        assert db.sql("select password_hash from retoma.users") == [(None,)]

    def test_its_name_may_be_given_again(self, db: Hand) -> None:
        added(db)
        db.ask(users.remove("u1"))

        added(db, "u2")


@pytest.mark.parametrize("query", [users.set_role("x", "admin"), users.lock("x"), users.unlock("x"), users.remove("x")])
def test_an_account_that_is_not_there_is_told_by_no_row(db: Hand, query: Query[str]) -> None:
    assert db.ask(query) == []
