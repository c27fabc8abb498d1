"""Replies: what was answered once is answered again, for a day."""

from __future__ import annotations

from collections.abc import Callable

from store_hand import Hand

from retoma.store import replies
from retoma.store.replies import Reply, Request

REQUEST = Request("me", "POST /jobs", "k-1")
REPLY = Reply("h", 202, '{"location": "/jobs/1"}', "{}")


class TestHold:
    def test_of_two_at_once_one_holds_the_request_until_its_transaction_ends(self, hand: Callable[..., Hand]) -> None:
        one, two = hand(), hand()
        one.begin()
        two.begin()

        assert one.ask(replies.hold(REQUEST)) == [True]
        assert two.ask(replies.hold(REQUEST)) == [False]
        assert two.ask(replies.hold(Request("you", "POST /jobs", "k-1"))) == [True]
        one.commit()
        assert two.ask(replies.hold(REQUEST)) == [True]
        two.rollback()


class TestOne:
    def test_a_reply_is_given_again_for_a_day(self, db: Hand) -> None:
        assert db.ask(replies.one(REQUEST)) == []
        db.ask(replies.keep(REQUEST, REPLY))
        assert db.ask(replies.one(REQUEST)) == [REPLY]
        db.sql("update retoma.replies set created_at = now() - interval '25 hours'")
        assert db.ask(replies.one(REQUEST)) == []


class TestKeep:
    def test_one_that_has_grown_too_old_makes_room(self, db: Hand) -> None:
        db.ask(replies.keep(REQUEST, REPLY))
        newer = Reply("other", 200, "{}", "new")
        db.ask(replies.keep(REQUEST, newer))

        assert db.ask(replies.one(REQUEST)) == [newer]


class TestPrune:
    def test_only_what_is_older_than_a_day_goes(self, db: Hand) -> None:
        db.ask(replies.keep(REQUEST, REPLY))
        db.sql("update retoma.replies set created_at = now() - interval '25 hours'")
        db.ask(replies.keep(Request("me", "POST /jobs", "k-2"), REPLY))

        assert db.ask(replies.prune()) == ["k-1"]
        assert db.ask(replies.prune()) == []
