"""Saved views: of one person, or of everybody."""

from __future__ import annotations

import pytest
from store_hand import Hand

from retoma.model.view import View
from retoma.store import views


def keep(db: Hand, name: str, owner: str, *, shared: bool = False, page: str = "errors", query: str = "a=1") -> View:
    return db.ask(views.keep(name, page=page, query=query, owner=owner, shared=shared))[0]


class TestSeenBy:
    def test_ones_own_and_those_that_are_shared(self, db: Hand) -> None:
        keep(db, "mine", "ana")
        keep(db, "hers", "bia")
        keep(db, "ours", "bia", shared=True)
        keep(db, "elsewhere", "ana", page="calls")

        assert [each.name for each in db.ask(views.seen_by("ana", page="errors"))] == ["mine", "ours"]
        assert [each.name for each in db.ask(views.seen_by("ana"))] == ["elsewhere", "mine", "ours"]


class TestKeep:
    def test_the_same_name_replaces_ones_own(self, db: Hand) -> None:
        first = keep(db, "late", "ana")
        other = keep(db, "late", "bia")
        again = keep(db, "late", "ana", query="b=2", shared=True)

        assert (again.id, again.query, again.shared, other.id != first.id) == (first.id, "b=2", True, True)


class TestRemove:
    @pytest.mark.parametrize(("owner", "gone"), [("bia", 0), ("ana", 1), (None, 1)])
    def test_only_by_its_owner_or_by_who_may_remove_any(self, db: Hand, owner: str | None, gone: int) -> None:
        view = keep(db, "ours", "ana", shared=True)

        assert len(db.ask(views.remove(view.id, owner=owner))) == gone
