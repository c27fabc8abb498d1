"""The oracle: what the diary, the results and the known kinds say, put side by side. Nothing here is assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from retoma.demo.diary import Line, begun_anew, redone
from retoma.demo.samples import Fate, Sample
from retoma.pipelines.classification.model import Result

FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class Happened:
    """What was seen while the demo ran."""

    killed: int = 0
    """Workers that were killed."""
    held: int = 0
    """Documents that such a worker had in hand."""
    given_back: int = 0
    """Those of them that another worker took over."""
    given_back_seconds: float | None = None
    steps_reused: int = 0
    """Steps that the killed worker had saved, and that nobody did again."""
    stalled: int = 0
    cause: str | None = None
    resumed: int = 0
    skipped_on_resume: int = 0
    """Documents that were done when the batch was resumed, and were left alone."""
    saved_seconds: float = 0.0
    """What starting over would have cost: the work that was done when the worker was killed, and again when the batch
    was resumed.
    """
    retried: int = 0
    recovered: int = 0
    """Documents that failed, were tried again, and then succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run of the demo came to."""

    documents: int
    refused: int
    """Files that were not taken into the batch at all."""
    classified: int
    to_review: int
    failed: int
    reasons: dict[str, int]
    missing: int
    """Documents of which there is no result."""
    twice: int
    """Results that are there once too often."""
    unexplained: int
    """Documents that failed and do not say why."""
    redone: int
    begun_anew: int
    spent: Decimal
    accuracy: float | None
    baseline: float | None
    scanned_read: bool
    """Whether the page that is only a picture was read: that takes OCR."""
    breaches: int
    """Promises of the tables that do not hold, as ``retoma verify`` counts them."""
    seconds: float
    happened: Happened = field(default_factory=Happened)

    @property
    def checks(self) -> dict[str, bool]:
        """The promises, each kept or not."""
        told = self.happened
        return {
            "one_result_per_document": self.twice == 0,
            "nothing_lost": self.missing == 0 and self.refused + self.classified + self.failed == self.documents,
            "nothing_redone": self.redone == 0,
            "every_error_explained": self.unexplained == 0,
            "tables_sound": self.breaches == 0,
            "worker_killed_and_replaced": told.killed > 0 and told.given_back == told.held,
            "stalled_and_resumed": told.stalled > 0 and told.resumed == 1,
            "errors_recovered": told.recovered > 0,
        }

    @property
    def kept(self) -> bool:
        """Whether every promise was."""
        return all(self.checks.values())

    def as_json(self) -> dict[str, Any]:
        """The report for a program."""
        figures = asdict(self)
        return {**figures.pop("happened"), **figures, "checks": self.checks, "kept": self.kept}


def reason_of(result: Result) -> str:
    """Why a document failed, in a word that never changes: the code of the error, or its name."""
    return (result.said or "").partition(":")[0]


def weigh(
    samples: Sequence[Sample],
    refused: Sequence[str],
    results: Sequence[Result],
    diary: Sequence[Line],
    happened: Happened,
    **known: Any,
) -> Report:
    """Put it all side by side; *known* is what was found out elsewhere."""
    scans = {sample.name for sample in samples if sample.fate is Fate.SCANNED}
    per_document = Counter(result.code for result in results)
    classified = [result for result in results if result.category is not None]
    failed = [result for result in results if result.state == FAILED]
    return Report(
        documents=len(samples),
        refused=len(refused),
        classified=len(classified),
        to_review=sum(result.to_review for result in classified),
        failed=len(failed),
        reasons=dict(Counter(map(reason_of, failed)).most_common()),
        missing=len({sample.name for sample in samples} - set(per_document) - set(refused)),
        twice=sum(count - 1 for count in per_document.values()),
        unexplained=sum(not reason_of(result) for result in failed),
        redone=redone(diary),
        begun_anew=begun_anew(diary),
        scanned_read=scans <= {result.code for result in classified},
        happened=happened,
        **known,
    )


def accuracy(samples: Sequence[Sample], results: Sequence[Result]) -> tuple[float | None, float | None]:
    """How many of the verdicts are right, and how many would be by letters alone on the same texts."""
    from retoma.bench.evaluation.accuracy import baseline  # noqa: PLC0415  # numpy, and only at the end
    from retoma.bench.evaluation.labelled import Labelled  # noqa: PLC0415  # as above

    known = {sample.name: sample for sample in samples}
    judged = [(known[result.code], result) for result in results if result.category is not None]
    if not judged:
        return None, None
    right = sum(sample.kind == result.category for sample, result in judged)
    texts = [Labelled(sample.kind, sample.language, "test", result.chunk_used or "") for sample, result in judged]
    letters = sum(text.kind == found for text, found in zip(texts, baseline(texts, with_cues=True), strict=True))
    return right / len(judged), letters / len(judged)
