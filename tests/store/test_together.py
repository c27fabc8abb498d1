"""Several queries that travel as one statement."""

from __future__ import annotations

from retoma.store import duties, health
from retoma.store.together import together

from .conftest import Hand


def test_they_give_the_rows_that_each_gives_alone(db: Hand) -> None:
    alone = (health.sizes(["retoma"]), duties.all(), health.overstays(60.0), health.revision())

    [found] = db.ask(together(*alone))

    assert list(found) == [db.ask(each) for each in alone]


def test_each_has_its_own_value_of_a_parameter_that_two_have(db: Hand) -> None:
    [(few, many)] = db.ask(together(health.sizes(["retoma"], limit=1), health.sizes(["retoma"], limit=5)))

    assert (len(few), len(many)) == (1, 5)
