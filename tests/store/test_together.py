"""Several queries that travel as one statement."""

from __future__ import annotations

import pytest

from retoma.store import duties, health, jobs
from retoma.store.together import together

from .conftest import Hand


def test_they_give_the_rows_that_each_gives_alone(db: Hand) -> None:
    alone = (health.sizes(["retoma"]), duties.all(), health.overstays(60.0), health.revision())

    [found] = db.ask(together(*alone))

    assert list(found) == [db.ask(each) for each in alone]


def test_queries_that_disagree_about_a_parameter_are_refused() -> None:
    with pytest.raises(ValueError, match="older_than"):
        together(health.overstays(1.0), jobs.prune(2.0, limit=1))
