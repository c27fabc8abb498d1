"""API keys: whether one still opens is the database's word."""

from __future__ import annotations

from store_hand import Hand

from retoma.store import keys, users
from retoma.store.keys import Key


def made(db: Hand, id: str = "k1", *, expires: float | None = None) -> Key:
    return db.ask(keys.create(id, "mine", b"hash", scopes=["read"], pipelines=None, expires=expires))[0]


class TestCreate:
    def test_a_new_key_opens_and_has_not_been_used(self, db: Hand) -> None:
        key = made(db)

        assert (key.usable, key.scopes, key.last_used_at, key.expires_at) == (True, ["read"], None, None)


class TestAll:
    def test_all_are_told_oldest_first_also_those_that_open_no_more(self, db: Hand) -> None:
        made(db, "k1", expires=60.0)
        made(db, "k2")
        db.sql("update retoma.api_keys set expires_at = now() where id = 'k1'")

        assert [(key.id, key.usable) for key in db.ask(keys.all())] == [("k1", False), ("k2", True)]


class TestLockOf:
    def test_it_gives_the_hash_and_never_a_secret(self, db: Hand) -> None:
        made(db)
        [lock] = db.ask(keys.lock_of("k1"))

        assert (lock.secret_hash, lock.rested, lock.key.id) == (b"hash", True, "k1")
        assert db.ask(keys.lock_of("other")) == []


class TestUse:
    def test_its_use_is_written_at_most_once_a_minute(self, db: Hand) -> None:
        made(db)

        assert db.ask(keys.use("k1")) == ["k1"]
        assert db.ask(keys.use("k1")) == []
        assert not db.ask(keys.lock_of("k1"))[0].rested
        db.sql("update retoma.api_keys set last_used_at = now() - interval '61 seconds'")
        assert db.ask(keys.use("k1")) == ["k1"]


class TestRevoke:
    def test_a_revoked_key_opens_no_more_and_keeps_its_first_hour(self, db: Hand) -> None:
        made(db)
        db.ask(keys.revoke("k1"))
        first = db.ask(keys.all())[0]
        db.ask(keys.revoke("k1"))

        assert not first.usable
        assert db.ask(keys.all())[0].revoked_at == first.revoked_at
        assert db.ask(keys.revoke("other")) == []


class TestRotate:
    def test_both_secrets_open_until_the_grace_is_over(self, db: Hand) -> None:
        made(db)
        [key] = db.ask(keys.rotate("k1", b"other", grace=60.0, expires=3600.0))
        [lock] = db.ask(keys.lock_of("k1"))

        assert (lock.secret_hash, lock.previous_hash) == (b"other", b"hash")
        assert key.expires_at is not None
        db.sql("update retoma.api_keys set previous_until = now()")
        assert db.ask(keys.lock_of("k1"))[0].previous_hash is None

    def test_a_revoked_key_gets_no_other_secret(self, db: Hand) -> None:
        made(db)
        db.ask(keys.revoke("k1"))

        assert db.ask(keys.rotate("k1", b"other", grace=60.0, expires=None)) == []


class TestTally:
    def test_a_revoked_key_still_exists(self, db: Hand) -> None:
        assert db.ask(keys.tally())[0].existing == 0
        made(db)
        db.ask(keys.revoke("k1"))
        [tally] = db.ask(keys.tally())

        assert (tally.existing, tally.usable) == (1, 0)

    def test_accounts_count_too_also_when_they_were_removed(self, db: Hand) -> None:
        db.ask(users.add("u1", "ana", "admin", "hash"))
        db.ask(users.add("u2", "rui", "admin", "hash"))
        db.ask(users.remove("u2"))
        [tally] = db.ask(keys.tally())

        assert (tally.existing, tally.usable, tally.people) == (2, 1, 1)
