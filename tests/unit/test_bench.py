"""The arithmetic of the measurements."""

from __future__ import annotations

import pytest

from retoma.bench.soak import slope_of


def test_a_straight_line_has_its_own_slope() -> None:
    assert slope_of([0, 10, 20, 30], [5, 25, 45, 65]) == pytest.approx(2.0)


def test_what_goes_up_and_down_around_one_value_has_no_slope() -> None:
    assert slope_of([0, 1, 2, 3, 4], [3, 5, 3, 5, 3]) == pytest.approx(0.0)


def test_one_sample_has_no_slope() -> None:
    assert slope_of([7], [3]) == 0.0
