"""What a project says of its reports is checked when it is written, and a misspelt name is not passed over."""

from typing import Any

import pytest

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.report_terms import report_terms


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"aproved_by": "x"}, "The terms of a report have no aproved_by"),
        ({"rules": {"leest": 2}}, "The rules of a report have no leest"),
        ({"rules": {"least": "many"}}, "report/rules/least"),
        ({"rules": []}, "report/rules"),
    ],
)
def test_terms_that_mean_nothing_are_refused_by_their_name(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        report_terms(given)


def test_terms_that_are_spelt_right_are_taken() -> None:
    assert report_terms({"rules": {"least": 2}, "approved_by": "x"}).rules.least == 2
