"""The algorithm by which the documents of a batch judge each other, on made vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from retoma.pipelines.classification import space
from retoma.pipelines.classification.describing import described
from retoma.pipelines.classification.refining import OTHER, First, Outcome, Refinement, Settings, Why, refine

WIDTH = 64
Rows = NDArray[Any]


def unit(rows: Rows) -> Rows:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


class World:
    """Kinds as directions; documents lie around theirs and have a common part; a label's texts lie near its kind."""

    def __init__(self, kinds: int = 4, seed: int = 1) -> None:
        self.chance = np.random.default_rng(seed)
        self.kinds = unit(self.chance.normal(size=(kinds, WIDTH)))
        self.common = unit(self.chance.normal(size=WIDTH))

    def documents(self, sizes: tuple[int, ...]) -> tuple[Rows, Rows]:
        truth = np.repeat(np.arange(len(sizes)), sizes)
        noise = self.chance.normal(size=(len(truth), WIDTH)) / np.sqrt(WIDTH)
        return unit(self.kinds[truth] + 0.9 * noise + 0.8 * self.common), truth

    def texts(self, labels: int, each: int = 3) -> list[Rows]:
        return [
            unit(self.kinds[label] + 0.9 * self.chance.normal(size=(each, WIDTH)) / np.sqrt(WIDTH))
            for label in range(labels)
        ]

    def first(self, truth: Rows, labels: int, right: float = 0.6) -> First:
        """First results of which so many are right."""
        told = np.where(self.chance.random(len(truth)) < right, truth, self.chance.integers(0, labels, len(truth)))
        told = np.where(told < labels, told, self.chance.integers(0, labels, len(truth)))
        shares = np.full((len(truth), labels), 0.5 / (labels - 1))
        shares[np.arange(len(truth)), told] = 0.5
        return First(labels=told, shares=shares, confidences=["media"] * len(truth))


def right(found: Refinement, truth: Rows) -> float:
    return float((found.labels == truth).mean())


def test_documents_that_are_alike_correct_what_was_found_in_each_alone() -> None:
    world = World()
    vectors, truth = world.documents((60, 60, 60, 60))
    first = world.first(truth, 4)

    found = refine(vectors, world.texts(4), first)

    assert found.outcome is Outcome.REFINED
    assert right(found, truth) > 0.95 > float((first.labels == truth).mean()) + 0.15
    assert (found.changed == (found.labels != first.labels)).all()
    assert found.shares.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("sizes", [(200, 0, 0, 0), (180, 8, 8, 8), (100, 100, 0, 0)])
def test_a_batch_of_mostly_one_kind_is_not_spread_over_all_labels(sizes: tuple[int, ...]) -> None:
    world = World()
    vectors, truth = world.documents(sizes)
    first = world.first(truth, 4, right=0.8)

    found = refine(vectors, world.texts(4), first, settings=Settings(strangers=False))

    assert right(found, truth) >= float((first.labels == truth).mean())


def test_a_batch_that_does_not_foresee_its_surest_results_changes_none_of_them() -> None:
    world = World()
    vectors, matter = world.documents((60, 60, 60, 60))
    kinds = np.arange(len(matter)) % 4  # what the labels mean has nothing to do with what the vectors show
    shares = np.full((len(kinds), 4), 0.02)
    shares[np.arange(len(kinds)), kinds] = 0.94
    first = First(labels=kinds, shares=shares, confidences=["alta"] * len(kinds))
    believed = Settings(contradicted=1.0)

    found = refine(vectors, world.texts(4), first, settings=believed)
    blind = refine(vectors, world.texts(4), first, settings=replace(believed, foreseen=0.0))

    assert found.labels.tolist() == kinds.tolist()
    assert blind.labels.tolist() != kinds.tolist()
    assert not found.groups


def test_a_doubted_batch_decides_where_the_first_result_is_all_but_open() -> None:
    world = World()
    vectors, matter = world.documents((60, 60, 60, 60))
    kinds = np.arange(len(matter)) % 4
    shares = np.full((len(kinds), 4), 0.02)
    shares[np.arange(len(kinds)), kinds] = 0.94
    shares[::10] = 0.2505
    shares[::10, 0] = 0.2485  # the surest label is not told by the first results
    first = First(labels=shares.argmax(axis=1), shares=shares, confidences=["media"] * len(kinds))

    found = refine(vectors, world.texts(4), first, settings=Settings(contradicted=1.0))

    opened = np.arange(len(kinds)) % 10 == 0
    assert (found.labels[~opened] == kinds[~opened]).all()
    assert found.changed[opened].any()


def test_a_batch_that_changes_many_likely_results_is_not_believed() -> None:
    world = World()
    vectors, matter = world.documents((60, 60, 60, 60))
    kinds = np.arange(len(matter)) % 4
    shares = np.full((len(kinds), 4), 0.1)
    shares[np.arange(len(kinds)), kinds] = 0.7
    first = First(labels=kinds, shares=shares, confidences=["media"] * len(kinds))

    found = refine(vectors, world.texts(4), first)

    assert found.outcome is Outcome.CONTRADICTED
    assert found.labels.tolist() == kinds.tolist()


def test_copies_do_not_vouch_for_each_other() -> None:
    world = World(kinds=8)
    forms, _ = world.documents((1,) * 8)
    vectors = unit(np.repeat(forms, 12, axis=0) + 0.01 * world.chance.normal(size=(96, WIDTH)))
    kinds = np.repeat(np.arange(8) % 4, 12)  # two forms of each kind, which have nothing in common
    shares = np.full((96, 4), 0.02)
    shares[np.arange(96), kinds] = 0.94
    first = First(labels=kinds, shares=shares, confidences=["alta"] * 96)
    texts = [world.chance.normal(size=(3, WIDTH)) for _ in range(4)]

    found = refine(vectors, texts, first, settings=Settings(contradicted=1.0))

    blind = refine(vectors, texts, first, settings=Settings(contradicted=1.0, foreseen=0.0))
    assert found.shares.min() > blind.shares.min(), "every form would be foreseen by its copies"


def test_the_same_documents_give_the_same_result() -> None:
    world = World()
    vectors, truth = world.documents((40, 40, 40, 40))
    texts, first = world.texts(4), world.first(truth, 4)

    one, two = refine(vectors, texts, first), refine(vectors.copy(), texts, first)

    assert (one.labels == two.labels).all()
    assert (one.shares == two.shares).all()
    assert one.reasons == two.reasons


def test_the_order_of_the_documents_changes_no_label() -> None:
    world = World()
    vectors, truth = world.documents((40, 40, 40, 40))
    texts, first = world.texts(4), world.first(truth, 4)
    order = world.chance.permutation(len(truth))
    turned = First(labels=first.labels[order], shares=first.shares[order], confidences=["media"] * len(truth))

    assert (refine(vectors[order], texts, turned).labels == refine(vectors, texts, first).labels[order]).all()


def test_pieces_of_any_length_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    vectors, truth = world.documents((40, 40, 40, 40))
    texts, first = world.texts(4), world.first(truth, 4)
    whole = refine(vectors, texts, first)
    monkeypatch.setattr(space, "PIECE", 7)

    assert (refine(vectors, texts, first).labels == whole.labels).all()


def test_few_documents_keep_what_was_found_in_each_alone_and_it_is_said() -> None:
    world = World()
    vectors, truth = world.documents((10, 9, 5, 5))
    first = world.first(truth, 4)

    found = refine(vectors, world.texts(4), first)

    assert found.outcome is Outcome.TOO_FEW
    assert (found.labels == first.labels).all()
    assert not found.changed.any()
    assert {each.why for each in found.reasons} == {Why.FIRST}


def test_copies_of_one_document_keep_what_was_found_in_each_alone_and_it_is_said() -> None:
    world = World()
    vectors, _ = world.documents((1, 0, 0, 0))
    many = np.repeat(vectors, 50, axis=0)
    first = world.first(np.zeros(50, dtype=np.int64), 4)

    found = refine(many, world.texts(4), first)

    assert found.outcome is Outcome.NO_SPREAD
    assert (found.labels == first.labels).all()


def test_what_a_person_decided_stays_and_teaches_the_others() -> None:
    world = World()
    vectors, truth = world.documents((50, 50, 50, 50))
    texts = [world.texts(4)[label] for label in (1, 0, 2, 3)]  # two labels whose texts say the wrong thing
    first = world.first(truth, 4, right=0.0)
    examples = [(int(each), int(truth[each])) for each in range(0, 200, 5)]

    alone, taught = refine(vectors, texts, first), refine(vectors, texts, first, examples=examples)

    assert all(taught.labels[each] == label for each, label in examples)
    assert all(taught.reasons[each].why is Why.EXAMPLE for each, _ in examples)
    assert all(taught.confidences[each] == "alta" for each, _ in examples)
    assert right(taught, truth) > right(alone, truth)


def test_an_example_may_say_that_a_document_fits_no_label() -> None:
    world = World()
    vectors, truth = world.documents((50, 50, 50, 50))

    found = refine(vectors, world.texts(4), world.first(truth, 4), examples=[(3, OTHER)])

    assert found.labels[3] == OTHER


def test_a_kind_that_no_label_names_is_told_as_a_group() -> None:
    world = World()
    vectors, truth = world.documents((60, 60, 60, 60))

    found = refine(vectors, world.texts(3), world.first(truth, 3))

    other = found.labels == OTHER
    assert other[truth == 3].mean() > 0.8
    assert other[truth != 3].mean() < 0.1
    assert sum(len(group.members) for group in found.groups) == other.sum()
    assert all(found.reasons[each].why is Why.STRANGER for each in found.groups[0].central)
    assert all(found.confidences[each] == "baixa" for each in np.flatnonzero(other))


def test_a_batch_whose_kinds_all_have_labels_has_no_strangers() -> None:
    world = World()
    vectors, truth = world.documents((60, 60, 60, 60))

    assert refine(vectors, world.texts(4), world.first(truth, 4)).groups == ()


def test_a_label_that_no_document_fits_is_told() -> None:
    world = World()
    vectors, truth = world.documents((80, 80, 80, 0))

    assert refine(vectors, world.texts(4), world.first(truth, 4, right=0.9)).unused == (3,)


def test_a_changed_document_says_to_whom_it_is_near() -> None:
    world = World()
    vectors, truth = world.documents((60, 60, 60, 60))
    found = refine(vectors, world.texts(4), world.first(truth, 4))

    for each in np.flatnonzero(found.changed & (found.labels != OTHER)):
        reason = found.reasons[each]
        assert reason.likeness_before is not None
        assert reason.documents == (found.labels == found.labels[each]).sum()
        assert all(found.labels[near] == found.labels[each] for near in reason.neighbours)


def test_names_alone_never_make_a_result_sure() -> None:
    world = World()
    vectors, truth = world.documents((60, 60, 60, 60))

    found = refine(vectors, world.texts(4, each=1), world.first(truth, 4))

    assert "alta" not in found.confidences


def test_shapes_and_examples_that_do_not_fit_are_refused() -> None:
    world = World()
    vectors, truth = world.documents((10, 10, 10, 10))
    first = world.first(truth, 4)

    with pytest.raises(ValueError, match="do not fit"):
        refine(vectors, world.texts(3), first)
    with pytest.raises(ValueError, match="no document 99"):
        refine(vectors, world.texts(4), first, examples=[(99, 0)])
    with pytest.raises(ValueError, match="no label 4"):
        refine(vectors, world.texts(4), replace(first), examples=[(0, 4)])


def test_words_that_are_frequent_in_a_group_and_rare_outside_describe_it() -> None:
    texts = [("paciente dosagem comprimido segundo contrato", 0)] * 5 + [("cláusula contrato segundo prazo", None)] * 20

    (words,) = described(texts, 1)

    assert set(words[:3]) == {"paciente", "dosagem", "comprimido"}
    assert "contrato" not in words
