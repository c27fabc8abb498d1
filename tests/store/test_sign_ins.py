"""Sign-ins at an OpenID provider: each comes back once, in time, to the browser that began it."""

from __future__ import annotations

from store_hand import Hand

from retoma.store import sign_ins


def begun(db: Hand) -> None:
    assert db.ask(sign_ins.begin(b"s", b"b", nonce="n", verifier="v", place="/x", lasts=60.0)) == ["/x"]


class TestBegin:
    def test_it_keeps_hashes(self, db: Hand) -> None:
        begun(db)

        assert db.value("select nonce from retoma.sign_ins") == "n"


class TestTake:
    def test_it_is_taken_once(self, db: Hand) -> None:
        begun(db)

        [first] = db.ask(sign_ins.take(b"s", b"b"))

        assert (first.nonce, first.verifier, first.place, first.usable) == ("n", "v", "/x", True)
        assert db.ask(sign_ins.take(b"s", b"b")) == []

    def test_another_browser_uses_it_up_and_gets_nothing(self, db: Hand) -> None:
        begun(db)

        assert not db.ask(sign_ins.take(b"s", b"other"))[0].usable
        assert db.ask(sign_ins.take(b"s", b"b")) == []


class TestPrune:
    def test_what_came_too_late_goes(self, db: Hand) -> None:
        begun(db)
        assert db.ask(sign_ins.prune()) == []
        db.sql("update retoma.sign_ins set expires_at = now() - interval '1 second'")

        assert db.ask(sign_ins.prune()) == ["/x"]
