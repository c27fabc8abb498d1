"""The parameters of the offline classifier are those that the development part gives."""

import numpy as np
import pytest

from retoma.bench.evaluation.calibrating import Case, cases, fitted, loss_of
from retoma.providers.local.classify import CALIBRATIONS, Weights
from retoma.providers.local.encoder import Lexical

pytestmark = pytest.mark.timeout(900)


def parameters(weights: Weights) -> np.ndarray:
    return np.array([*weights.views, weights.labels, weights.words])


def test_no_neighbour_of_the_shipped_weights_is_better() -> None:
    # With names alone and the encoder of letters: the others are found in the same way, in minutes.
    shipped = parameters(CALIBRATIONS[Lexical().model].bare)
    found = list(cases(Lexical(), described=False))

    here = loss_of(found, shipped)

    for place in range(len(shipped)):
        for step in (-0.1, 0.1):
            beside = shipped.copy()
            beside[place] = beside[place] + step if place > 3 else max(0.0, beside[place] + step)
            assert loss_of(found, beside) >= here - 1e-4, (place, step)


def test_a_case_with_the_right_label_ahead_loses_less() -> None:
    views = np.zeros((4, 1, 2))
    views[0, 0] = (1.0, -1.0)
    right, wrong = (Case(views, np.array([label]), np.array([60.0]), ["one"]) for label in (0, 1))

    even = np.array([1.0, 1, 1, 1, 0, 0])

    assert right.loss(even) < wrong.loss(even)
    assert right.loss(2 * even) < right.loss(even)


def test_weights_are_found_by_a_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    truth = chance.integers(0, 3, 200)
    views = chance.normal(size=(4, 200, 3))
    views[1, np.arange(200), truth] += 2.0  # only the second view knows
    made = [Case(views, truth, np.full(200, 60.0), ["one"] * 200)]
    monkeypatch.setattr("retoma.bench.evaluation.calibrating.cases", lambda *_, **__: iter(made))

    found = fitted(Lexical(), described=True)

    assert found.views[1] > 1.0
    assert max(found.views[0], found.views[2], found.views[3]) < 0.5
