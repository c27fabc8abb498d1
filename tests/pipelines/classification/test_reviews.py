"""Results that are not sure, at the review desk; and the blocks of reviews.sql."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError, Conflict
from retoma.model.batch import Batch
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification import reviews
from retoma.pipelines.classification.library import Classification
from retoma.providers import BlobStore, Classifier, Extractor, Label, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain

VAGUE = {"recado.txt": "Senhores, segue o que foi pedido na semana passada, sem mais para o momento, com um abraço."}


class Unsure(LocalClassifier):
    """A classifier that is never sure."""

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> list[Verdict]:
        found = await super().classify(texts, labels, timeout=timeout)
        return [replace(each, confidence="baixa", quote="o que foi pedido") for each in found]


@pytest.fixture
async def library(settings: Settings, tmp_path: Path) -> AsyncIterator[Classification]:
    providers: dict[type, object] = {
        Extractor: LocalExtractor(),
        Classifier: Unsure(Lexical()),
        BlobStore: FolderBlobs(tmp_path / "blobs"),
    }
    async with Retoma(settings=settings, extensions=[CLASSIFICATION], providers=providers) as app:
        yield Classification(app)


@pytest.fixture
async def batch(library: Classification, project: Callable[..., Any]) -> Batch:
    """An execution with one document of which nobody can be sure."""
    started = await library.start(await project(VAGUE))
    await drain(library.app)
    [result] = await library.results(started.id)
    assert (result.state, result.confidence) == ("completed", "baixa")
    return started


async def only(library: Classification) -> Any:
    [found] = await library.app.reviews.next("ana")
    return found


class TestDoubts:
    async def test_a_low_confidence_is_in_doubt_until_a_review_names_it(
        self, library: Classification, batch: Batch
    ) -> None:
        [doubt] = await library.app.fetch(reviews.doubts(5))
        [result] = await library.results(batch.id)

        assert (doubt.item, doubt.batch_id, doubt.job_id) == (str(result.id), batch.id, result.job_id)
        assert (doubt.title, doubt.label, doubt.margin) == ("recado.txt", result.category, result.margin)
        await library.app.reviews.find()
        assert await library.app.fetch(reviews.doubts(5)) == []


class TestSeen:
    async def test_a_person_sees_the_text_the_words_that_decided_and_the_labels(
        self, library: Classification, batch: Batch
    ) -> None:
        found = await only(library)

        [result] = await library.results(batch.id)
        assert found.evidence.text.startswith("Senhores, segue")
        assert found.evidence.passage == result.quote
        assert found.evidence.choices[0].label == result.category
        assert "contrato" in [each.label for each in found.evidence.choices]
        assert dict(found.evidence.facts)["file"] == "recado.txt"


class TestDecide:
    async def test_what_is_corrected_is_the_result_and_the_output_of_the_job(
        self, library: Classification, batch: Batch
    ) -> None:
        found = await only(library)

        decision = await library.app.reviews.correct(found.review.id, {"category": "contrato"}, "ana")

        [result] = await library.results(batch.id)
        job = await library.app.jobs.get(result.job_id)
        assert (result.category, result.decided_by, result.to_review) == ("contrato", "ana", False)
        assert '"contrato"' in (job.output or "")
        assert (decision.decided_label, decision.label) == ("contrato", found.review.label)
        assert await library.app.reviews.find() == []

    async def test_what_is_accepted_is_in_doubt_no_more(self, library: Classification, batch: Batch) -> None:
        found = await only(library)

        await library.app.reviews.accept(found.review.id, "ana")

        [result] = await library.results(batch.id)
        assert (result.category, result.to_review) == (found.review.label, False)
        with pytest.raises(Conflict, match="ana chose accept"):
            await library.app.reviews.accept(found.review.id, "bia")

    async def test_what_is_rejected_has_no_category_and_its_job_fails(
        self, library: Classification, batch: Batch
    ) -> None:
        found = await only(library)

        await library.app.reviews.reject(found.review.id, "ana", note="wrong file")

        [result] = await library.results(batch.id)
        assert (result.state, result.category) == ("failed", None)
        assert result.error == "ana rejected it in review: wrong file"
        assert (await library.app.batches.progress(batch.id)).failed == 1

    @pytest.mark.usefixtures("batch")
    async def test_a_value_without_a_category_is_refused_and_nothing_is_lost(self, library: Classification) -> None:
        found = await only(library)

        for value in ({"category": ""}, {"kind": "ata"}, 7, ""):
            with pytest.raises(ConfigurationError, match="A category is a name"):
                await library.app.reviews.correct(found.review.id, value, "ana")

        assert await library.app.reviews.decisions() == []

    async def test_what_is_sent_back_is_classified_anew(self, library: Classification, batch: Batch) -> None:
        found = await only(library)

        await library.app.reviews.reject(found.review.id, "ana", retry=True)
        assert await library.app.reviews.find() == []
        await drain(library.app)

        again = await only(library)
        assert again.review.id == found.review.id
        assert (await library.app.batches.get(batch.id)).state == "completed"


class TestUndo:
    @pytest.mark.parametrize("rejected", [True, False])
    async def test_an_undone_decision_puts_back_what_was_found(
        self, library: Classification, batch: Batch, *, rejected: bool
    ) -> None:
        [before] = await library.results(batch.id)
        found = await only(library)
        if rejected:
            await library.app.reviews.reject(found.review.id, "ana")
        else:
            await library.app.reviews.correct(found.review.id, "contrato", "ana")

        await library.app.reviews.undo("ana")

        [after] = await library.results(batch.id)
        assert (after.state, after.category, after.processed_at) == (before.state, before.category, before.processed_at)
        assert after.to_review
        assert (await only(library)).review.id == found.review.id
        assert await library.app.system.verify() == []
