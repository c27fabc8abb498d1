"""The audit: rows are added, and nothing but their age removes them."""

from __future__ import annotations

import psycopg
import pytest
from store_hand import Hand

from retoma.store import audit
from retoma.store.audit import Entry


def entry(action: str = "queue.pause", *, kind: str | None = "queue", id: str | None = "letters", **more: str) -> Entry:
    said = {"who": "k1", "via": "http", "route": "POST /x", "outcome": "done", **more}
    return Entry(action=action, object_kind=kind, object_id=id, **said)  # type: ignore[arg-type]


class TestWrite:
    def test_what_was_and_what_is_come_back_as_they_were_written(self, db: Hand) -> None:
        said = entry(before='{"reason": "a"}', after='{"lane": "x"}')

        db.ask(audit.write([said, entry("key.refuse", outcome="refused")]))

        second, first = db.ask(audit.page())
        assert (first.before, first.after, first.who) == ({"reason": "a"}, {"lane": "x"}, "k1")
        assert (second.outcome, second.after, second.times) == ("refused", None, 1)


class TestPage:
    def test_rows_are_found_by_who_what_to_what_and_when(self, db: Hand) -> None:
        db.ask(audit.write([entry(), entry("job.retry", kind="job", id="7", who="k2", name="robot"), entry()]))

        assert [row.action for row in db.ask(audit.page(who="robot"))] == ["job.retry"]
        assert [row.action for row in db.ask(audit.page(action="job.retry"))] == ["job.retry"]
        assert [row.object_id for row in db.ask(audit.page(object_kind="job", object_id="7"))] == ["7"]
        assert len(db.ask(audit.page(object_kind="queue"))) == 2
        assert len(db.ask(audit.page(lately=60.0))) == 3
        newest = db.ask(audit.page(limit=1))[0]
        assert len(db.ask(audit.page(before=newest.id))) == 2
        assert db.ask(audit.page(outcome="failed")) == []

    @pytest.mark.parametrize(
        "sql",
        ["update retoma.audit set who = 'x'", "delete from retoma.audit", "truncate retoma.audit"],
    )
    def test_a_row_can_be_neither_changed_nor_removed(self, db: Hand, sql: str) -> None:
        db.ask(audit.write([entry()]))

        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="never changed"):
            db.sql(sql)

        assert len(db.ask(audit.page())) == 1


class TestPrune:
    def test_only_what_is_old_goes_and_never_what_is_younger_than_a_day(self, db: Hand) -> None:
        db.ask(audit.write([entry(), entry("job.retry")]))
        db.sql("set session_replication_role = replica")  # the one way to let a row age
        db.sql("update retoma.audit set at = now() - interval '2 days' where action = 'job.retry'")
        db.sql("reset session_replication_role")

        assert len(db.ask(audit.prune(0.0))) == 1
        assert [row.action for row in db.ask(audit.page())] == ["queue.pause"]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.sql("delete from retoma.audit")
