"""Lanes: which of them belong to a batch."""

from __future__ import annotations

import pytest

from retoma.model.machine import Lane


def lane(name: str | None) -> Lane:
    return Lane(1, name, None, closed=False, kept=False, waiting=0, more=False, running=0, oldest_due_seconds=None)


@pytest.mark.parametrize("name", ["batch:42", "batch:42:pilot", "batch:42:finish"])
def test_a_batch_s_jobs_its_pilot_and_its_last_step_wait_in_lanes_of_that_batch(name: str) -> None:
    assert lane(name).batch == 42


@pytest.mark.parametrize("name", [None, "", "tenant", "batch:", "batch:x", "batch:1:other", "batch:1\n"])
def test_a_lane_that_somebody_named_belongs_to_no_batch(name: str | None) -> None:
    assert lane(name).batch is None
