"""In which order people are asked: what is doubtful, typical, and unlike what is known."""

from __future__ import annotations

import numpy as np

from retoma.pipelines.classification.choosing import order, turns

NOBODY = np.zeros((0, 8), dtype=np.float32)


def crowd(seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Three groups of ten that are alike."""
    chance = np.random.default_rng(seed)
    centres = np.eye(8)[:3]
    rows = np.repeat(centres, 10, axis=0) + 0.05 * chance.normal(size=(30, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), np.full(30, 0.2)


def test_the_first_answers_come_from_different_groups() -> None:
    vectors, margins = crowd()

    chosen = order(vectors, margins, NOBODY, most=3)

    assert {place // 10 for place in chosen} == {0, 1, 2}


def test_the_turns_give_the_same_order_and_begin_with_the_lowest_margin() -> None:
    vectors, margins = crowd()

    given = turns(vectors, margins, NOBODY)

    assert np.argsort(given, kind="stable")[:3].tolist() == order(vectors, margins, NOBODY, most=3)
    assert min(given) == 0.2
    assert max(given) <= 1.0


def test_what_is_like_a_decided_document_waits() -> None:
    vectors, margins = crowd()

    given = np.array(turns(vectors, margins, vectors[:1]))

    assert given[:10].min() > given[10:].min()


def test_a_document_alone_keeps_its_margin() -> None:
    vectors, _ = crowd()

    assert turns(vectors[:1], np.array([0.3]), NOBODY) == [0.3]
    assert turns(vectors[:0], np.array([]), NOBODY) == []
