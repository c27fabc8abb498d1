"""Another prompt for the rest of an execution: who gets it, what is taken over, and how the two compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retoma.errors import Conflict, NotFound
from retoma.model.ids import BatchId
from retoma.pipelines.classification.labels import written
from retoma.pipelines.classification.library import Classification
from retoma.providers import Label
from retoma.testing import drain

SAME = [
    Label(name="ata", description="Registro de reunião ou assembleia.", cues=("presentes", "ordem do dia")),
    Label(name="contrato", description="Acordo entre partes, com cláusulas.", cues=("cláusula", "foro")),
]
OTHER = [
    Label(name="reunião", description="Registro de reunião ou assembleia.", cues=("presentes", "ordem do dia")),
    Label(name="acordo", description="Acordo entre partes, com cláusulas.", cues=("cláusula", "foro")),
]
FILES = {
    f"{kind}-{number}.txt": f"{text} Número {number}."
    for number in range(3)
    for kind, text in (
        ("ata", "Ata da assembleia geral. Presentes os diretores. Ordem do dia. Nada mais havendo a tratar."),
        ("contrato", "Contrato. Cláusula primeira, do objeto. Cláusula segunda, do preço. Fica eleito o foro."),
    )
}


async def half_done(library: Classification, project: Callable[..., Any]) -> tuple[BatchId, int]:
    """An execution of which two documents are done, and its project."""
    first = await library.create_prompt("Primeiro", written(SAME))
    id = await project(FILES, prompt_id=first.id, model="local")
    batch, _ = await library.begin(id, pilot=2)
    await drain(library.app)
    assert (await library.execution(batch.id)).completed == 2
    return batch.id, id


async def finished(library: Classification, id: BatchId) -> None:
    await library.app.batches.release(id)
    await drain(library.app)
    assert (await library.execution(id)).done == len(FILES)


async def test_the_rest_has_the_new_prompt_and_the_two_are_compared(
    library: Classification, project: Callable[..., Any]
) -> None:
    id, _ = await half_done(library, project)
    second = await library.create_prompt("Segundo", written(OTHER))

    done = await library.replan(id, second.id, by="ana")
    again = await library.replan(id, second.id, by="ana")
    await finished(library, id)

    assert (done.word, done.jobs, again.word) == ("replanned", 4, "already_planned")
    first, rest = await library.app.batches.cohorts(id)
    assert (first.configuration["prompt_name"], first.completed) == ("Primeiro", 2)
    assert (rest.configuration["prompt_name"], rest.completed, rest.note) == ("Segundo", 4, "Segundo")
    found = {each.category for each in await library.results(id)}
    assert found & {"ata", "contrato"}
    assert found & {"reunião", "acordo"}, "the last step has not made the new categories into the old ones"
    finding = await library.finding(id)
    assert finding is not None
    assert finding.outcome == "off", "answers to two questions are not compared"


async def test_what_was_found_under_the_old_prompt_is_not_taken_over_under_the_new_one(
    library: Classification, project: Callable[..., Any]
) -> None:
    _, whole = await half_done(library, project)
    before, _ = await library.begin(whole)
    await finished(library, before.id)
    later = (await library.begin(whole, pilot=1))[0]
    await drain(library.app)
    second = await library.create_prompt("Segundo", written(OTHER))

    await library.replan(later.id, second.id)
    await finished(library, later.id)

    found = await library.results(later.id)
    assert [each.copied_from is not None for each in found].count(True) == 1, "the pilot's, under the old prompt"
    assert {each.category for each in found if each.copied_from is None} <= {"reunião", "acordo"}


async def test_with_the_same_categories_the_results_are_still_judged_by_each_other(
    library: Classification, project: Callable[..., Any]
) -> None:
    id, _ = await half_done(library, project)
    second = await library.create_prompt("Segundo", f"Com mais cuidado.\n\n{written(SAME)}")

    await library.replan(id, second.id)
    await finished(library, id)

    finding = await library.finding(id)
    assert finding is not None
    assert finding.outcome != "off"


async def test_who_begins_the_project_with_the_new_prompt_goes_on_with_it(
    library: Classification, project: Callable[..., Any]
) -> None:
    id, whole = await half_done(library, project)
    second = await library.create_prompt("Segundo", written(OTHER))
    await library.replan(id, second.id)

    old = await library.unfinished(whole)
    await library.change_project(whole, prompt_id=second.id)
    new = await library.unfinished(whole)

    assert (old, new) == (None, id)


async def test_an_ended_execution_an_unknown_prompt_and_an_archived_one_are_refused(
    library: Classification, project: Callable[..., Any]
) -> None:
    id, _ = await half_done(library, project)
    second = await library.create_prompt("Segundo", written(OTHER))
    third = await library.create_prompt("Terceiro", written(SAME))
    await library.archive_prompt(third.id)

    with pytest.raises(NotFound, match="There is no prompt 999999"):
        await library.replan(id, 999_999)
    with pytest.raises(Conflict, match="was archived"):
        await library.replan(id, third.id)
    await library.replan(id, second.id)
    await finished(library, id)
    with pytest.raises(Conflict, match="nothing of it is left to re-plan"):
        await library.replan(id, (await library.create_prompt("Quarto", written(SAME))).id)
    with pytest.raises(Conflict, match="re-planned with other categories"):
        await library.refine(id, by="ana")


async def test_a_document_in_doubt_has_the_labels_that_it_was_judged_by(
    library: Classification, project: Callable[..., Any]
) -> None:
    id, _ = await half_done(library, project)
    second = await library.create_prompt("Segundo", written(OTHER))
    await library.replan(id, second.id)
    await finished(library, id)
    async with library.app.transaction() as conn:
        await conn.execute("update retoma.classifications set confidence = 'baixa'")

    seen = await library.app.reviews.next("ana", limit=10)

    by_category = {each.review.label: {choice.label for choice in each.evidence.choices} for each in seen}
    assert by_category
    for label, choices in by_category.items():
        assert choices == ({"ata", "contrato"} if label in ("ata", "contrato") else {"reunião", "acordo"})
