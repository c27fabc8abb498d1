"""A batch that judges its documents by each other when all of them have ended."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from retoma.pipelines.classification import refinement
from retoma.pipelines.classification.labels import written
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Result
from retoma.providers import Label
from retoma.testing import drain

WORDS = {
    "futebol": "gol atacante goleiro escanteio zagueiro estádio torcida campeonato pênalti artilheiro árbitro falta",
    "culinária": "farinha manteiga forno assadeira tempero cebola receita cozimento panela açúcar fermento colher",
    "astronomia": "planeta órbita telescópio galáxia estrela cometa satélite nebulosa eclipse asteroide lua universo",
}
LABELS = [
    Label(name="futebol", description="Texto sobre gol, goleiro, campeonato e torcida.", cues=("atacante", "estádio")),
    Label(name="culinária", description="Texto sobre receita, forno, tempero e panela.", cues=("farinha", "açúcar")),
    Label(name="astronomia", description="Texto sobre planeta, estrela e telescópio.", cues=("galáxia", "órbita")),
]


def texts(each: int, kinds: tuple[str, ...] = tuple(WORDS)) -> dict[str, str]:
    """So many documents of each kind; every other one shares no word with the texts of its label."""
    chance = random.Random(7)
    found = {}
    for kind in kinds:
        words = WORDS[kind].split()
        for number in range(each):
            own = words if number % 2 else words[-6:]
            found[f"{kind}-{number:02}.txt"] = " ".join(chance.choices(own, k=40)) + f". Número {number} de {kind[:2]}."
    return found


Prepared = Callable[..., Any]


@pytest.fixture
def prepared(library: Classification, project: Callable[..., Any]) -> Prepared:
    """A project of these documents and labels."""

    async def made(files: dict[str, str], labels: list[Label] | None = None) -> int:
        prompt = await library.create_prompt("Assuntos", written(labels or LABELS))
        return int(await project(files, prompt_id=prompt.id, model="local"))

    return made


async def test_results_are_there_at_once_and_the_batch_refines_them_when_all_have_ended(
    library: Classification, prepared: Prepared
) -> None:
    batch = await library.start(await prepared(texts(14)))

    await drain(library.app)

    finding = await library.finding(batch.id)
    results = await library.results(batch.id)
    assert finding is not None
    assert (finding.outcome, finding.documents) == ("refined", 42)
    assert finding.changed == sum(each.was is not None and each.was["category"] != each.category for each in results)
    right = sum(each.code.startswith(str(each.category)) for each in results)
    alone = sum(each.code.startswith(str((each.answer or {})["categoria"])) for each in results)
    assert right >= alone, "what was found alone stays in the answer"
    assert (await library.execution(batch.id)).total == 42, "the last step is no document"
    assert (await library.execution(batch.id)).state == "completed"


async def test_a_changed_result_says_what_it_was_what_it_is_and_why(
    library: Classification, prepared: Prepared
) -> None:
    batch = await library.start(await prepared(texts(14)))

    await drain(library.app)

    changed = [each for each in await library.results(batch.id) if each.was is not None]
    assert changed
    for each in changed:
        assert each.was is not None
        assert each.why is not None
        assert (each.was["category"], each.was["confidence"]) != (each.category, each.confidence)
        assert each.was["justification"] in str(each.justification)
        assert each.why["first"] == (each.answer or {})["categoria"]
        assert each.why["rule"] in {"centre", "stranger"}


async def test_the_same_documents_give_the_same_result_in_whatever_order_they_end(
    library: Classification, prepared: Prepared, psql: psycopg.Connection
) -> None:
    id = await prepared(texts(12))
    first = await library.start(id, reuse=False)
    await drain(library.app)
    second = await library.start(id, reuse=False)
    psql.execute("update retoma.jobs set priority = id %% 7 where batch_id = %s and state = 'queued'", [second.id])
    psql.commit()

    await drain(library.app)

    def plain(results: list[Result]) -> list[tuple[Any, ...]]:
        return [(each.code, each.category, each.confidence, each.score, each.margin) for each in results]

    assert plain(await library.results(first.id)) == plain(await library.results(second.id))


async def test_a_small_batch_keeps_every_first_result_and_says_so(library: Classification, prepared: Prepared) -> None:
    batch = await library.start(await prepared(texts(5)))

    await drain(library.app)

    finding = await library.finding(batch.id)
    assert finding is not None
    assert (finding.outcome, finding.documents, finding.changed) == ("too_few", 15, 0)
    assert all(each.was is None for each in await library.results(batch.id))


async def test_it_can_be_switched_off(library: Classification, prepared: Prepared) -> None:
    batch = await library.start(await prepared(texts(12)), refine=False)

    await drain(library.app)

    finding = await library.finding(batch.id)
    assert finding is not None
    assert finding.outcome == "off"
    assert all(each.was is None for each in await library.results(batch.id))


async def test_documents_that_fit_no_label_are_told_with_the_words_that_describe_them(
    library: Classification, prepared: Prepared
) -> None:
    batch = await library.start(await prepared(texts(20), LABELS[:2]))

    await drain(library.app)

    finding = await library.finding(batch.id)
    assert finding is not None
    assert finding.others == sum(group["documents"] for group in finding.groups) > 10
    (group,) = finding.groups
    assert set(group["words"]) & set(WORDS["astronomia"].split())
    others = Counter(each.code.partition("-")[0] for each in await library.results(batch.id, category="outro"))
    assert others.most_common(1)[0][0] == "astronomia"
    assert all(each.confidence == "baixa" for each in await library.results(batch.id, category="outro")), "for a person"


async def test_a_label_that_no_document_fits_is_told(library: Classification, prepared: Prepared) -> None:
    batch = await library.start(await prepared(texts(20, ("futebol", "culinária"))))

    await drain(library.app)

    finding = await library.finding(batch.id)
    assert finding is not None
    assert "astronomia" in finding.unused


async def test_what_was_taken_over_from_another_execution_is_what_was_found_alone(
    library: Classification, prepared: Prepared
) -> None:
    id = await prepared(texts(14))
    first = await library.start(id)
    await drain(library.app)
    second = await library.start(id)

    await drain(library.app)

    results = await library.results(second.id)
    assert {str(each.state) for each in results} == {"skipped"}
    assert [each.category for each in results] == [each.category for each in await library.results(first.id)]
    finding = await library.finding(second.id)
    assert finding is not None
    assert finding.documents == 42, "their vectors were taken over too"


async def test_what_a_person_decided_never_changes_and_teaches(
    library: Classification, prepared: Prepared, psql: psycopg.Connection
) -> None:
    id = await prepared(texts(12))
    batch = await library.start(id)
    await drain(library.app)
    one = (await library.results(batch.id))[0]
    psql.execute(
        "update retoma.classifications set category = 'astronomia', decided_by = 'ana', decided_at = now()"
        " where id = %s",
        [one.id],
    )
    psql.commit()
    again = await library.start(id)

    await drain(library.app)

    now = (await library.results(again.id))[0]
    assert (now.code, now.category, now.decided_by) == (one.code, "astronomia", "ana")


async def test_changes_are_applied_in_pieces_and_each_of_them_once(
    library: Classification, prepared: Prepared, monkeypatch: pytest.MonkeyPatch, psql: psycopg.Connection
) -> None:
    monkeypatch.setattr(refinement, "PIECE", 3)
    batch = await library.start(await prepared(texts(14)))

    await drain(library.app)

    finding = await library.finding(batch.id)
    assert finding is not None
    steps = psql.execute(
        "select count(*) from retoma.checkpoints join retoma.batches on finish_job_id = job_id"
        " where batches.id = %s and step like 'apply/%%'",
        [batch.id],
    ).fetchone()
    planned = psql.execute("select count(*), count(applied_at) from classification.changes").fetchone()
    assert planned is not None
    assert planned[0] == planned[1] == finding.applied
    assert steps == (planned[0] // 3 + 1,)
