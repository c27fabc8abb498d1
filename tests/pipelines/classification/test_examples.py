"""What people teach: decisions become examples, examples refine executions, and what a person decided never changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from retoma.errors import ConfigurationError, Conflict
from retoma.model.batch import Batch
from retoma.pipelines.classification import examples, refinements, reviews
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.taught_file import Said, read_lesson
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain

LABELS = """Diga de que tipo é o documento.

```categorias
- ofício: comunicação oficial entre repartições
- ata: registro do que se passou numa reunião
- recibo: prova de que alguém pagou
```
"""
LETTER = (
    "Senhor Diretor, encaminho a Vossa Senhoria a relação de móveis do setor {n} para as providências cabíveis. "
    "Atenciosamente, a chefia da divisão {m}."
)
MINUTES = (
    "Aos {n} dias reuniram-se os sócios na sala {m}. Lida a ordem do dia, foi aprovada. Nada mais havendo, encerrou-se."
)
RECEIPT = "Recebi de João a quantia de {n} reais referente ao aluguel do mês {m}, pelo que dou plena quitação."


def papers(count: int = 12) -> dict[str, str]:
    """So many of each kind, no two of them equal."""
    kinds = {"oficio": LETTER, "ata": MINUTES, "recibo": RECEIPT}
    return {
        f"{kind}-{place:02}.txt": text.format(n=place * 7 + 3, m=place)
        for kind, text in kinds.items()
        for place in range(count)
    }


@pytest.fixture
async def batch(library: Classification, project: Callable[..., Any]) -> Batch:
    """An execution of 36 documents of three kinds, done."""
    prompt = await library.create_prompt("Três tipos", LABELS)
    started = await library.start(await project(papers(), prompt_id=prompt.id, model="local"))
    await drain(library.app)
    return started


def project_of(batch: Batch) -> int:
    return int(batch.labels["project"])


async def found(library: Classification, batch: Batch) -> dict[str, Any]:
    return {each.code: each for each in await library.results(batch.id)}


async def refined(library: Classification, batch: Batch) -> Any:
    asked, _ = await library.refine(batch.id, by="ana")
    await drain(library.app)
    job = await library.app.jobs.get(asked.job_id)
    assert job.state == "completed", job.error
    return await library.refinement(asked.id)


def wrong(results: dict[str, Any]) -> dict[str, str]:
    """Documents that were taken for something else, each with its true label."""
    true = {"oficio": "ofício", "ata": "ata", "recibo": "recibo"}
    return {
        code: true[code.partition("-")[0]]
        for code, each in results.items()
        if each.category != true[code.partition("-")[0]]
    }


async def mistaken(library: Classification, psql: Any, batch: Batch) -> None:
    """Make the machine take every letter for a receipt, though not surely."""
    psql.execute(
        "update retoma.classifications set category = 'recibo', confidence = 'baixa', margin = 0.05, score = 0.4, "
        """answer = '{"pontuacoes": {"ofício": 0.35, "ata": 0.25, "recibo": 0.4}}' """
        "where batch_id = %s and code like 'oficio%%'",
        [batch.id],
    )
    psql.commit()
    assert len(wrong(await found(library, batch))) >= 12


class TestTeach:
    async def test_what_a_person_says_of_a_document_is_an_example_and_its_result(
        self, library: Classification, batch: Batch
    ) -> None:
        done = await library.teach(
            project_of(batch), [Said(line=2, document="oficio-00.txt", label="OFICIO")], by="ana", source="api"
        )
        [example] = await library.examples(project_of(batch))
        result = (await found(library, batch))["oficio-00.txt"]

        assert (done.taught, done.known, done.problems, done.results) == (1, 0, [], 1)
        assert (example.label, example.decided_by, example.batch_id) == ("ofício", "ana", batch.id)
        assert example.text_sha256
        assert (result.category, result.decided_by) == ("ofício", "ana")

    async def test_the_same_again_changes_nothing_and_another_word_than_a_persons_is_refused(
        self, library: Classification, batch: Batch
    ) -> None:
        first = [Said(line=2, document="oficio-00", label="ofício")]
        await library.teach(project_of(batch), first, by="ana")

        again = await library.teach(project_of(batch), first, by="bruno")
        other = await library.teach(project_of(batch), [Said(line=3, document="oficio-00", label="ata")], by="bruno")

        assert (again.taught, again.known) == (0, 1)
        assert [(each.line, each.reason) for each in other.problems] == [(3, "decided_before")]
        assert "ana said" in other.problems[0].message
        assert (await found(library, batch))["oficio-00.txt"].category == "ofício"

    async def test_of_two_people_at_once_one_teaches_and_the_other_is_told(
        self, library: Classification, batch: Batch
    ) -> None:
        rows = [[Said(line=2, document="ata-00.txt", label=label)] for label in ("ata", "recibo")]

        both = await asyncio.gather(
            *(library.teach(project_of(batch), each, by=who) for each, who in zip(rows, ("ana", "bruno"), strict=True))
        )

        assert sorted(each.taught for each in both) == [0, 1]
        assert sum(len(each.problems) for each in both) == 1
        assert len(await library.examples(project_of(batch))) == 1

    async def test_every_bad_row_is_told_with_its_line_and_the_good_ones_are_taken(
        self, library: Classification, batch: Batch
    ) -> None:
        content = (
            "Arquivo;Categoria\nata-00.txt;ata\nnada.txt;ata\nata-01.txt;poema\n;ata\nata-02.txt;\n"
            "ata-03.txt;ata\nATA-03.TXT;recibo\npasta\\ata-04.txt;ATA\n"
        ).encode("cp1252")

        done = await library.teach_file(project_of(batch), content, by="ana")

        assert (done.taught, done.known, done.seen) == (2, 0, 8)
        assert [(each.line, each.reason) for each in done.problems] == [
            (3, "document_unknown"),
            (4, "label_unknown"),
            (5, "document_missing"),
            (6, "label_missing"),
            (7, "contradiction"),
            (8, "contradiction"),
        ]

    async def test_a_document_that_was_never_classified_is_decided_when_its_execution_is_refined(
        self, library: Classification, project: Callable[..., Any]
    ) -> None:
        prompt = await library.create_prompt("Três tipos", LABELS)
        id = await project(papers(), prompt_id=prompt.id, model="local")
        await library.teach(id, [Said(line=2, document="ata-00.txt", label="recibo")], by="ana")

        batch = await library.start(id)
        await drain(library.app)
        await refined(library, batch)

        result = (await found(library, batch))["ata-00.txt"]
        assert (result.category, result.decided_by) == ("recibo", "ana")


class TestApply:
    async def test_a_result_that_somebody_decided_stays(self, library: Classification, batch: Batch) -> None:
        await library.teach(project_of(batch), [Said(line=2, document="ata-00.txt", label="ata")], by="ana")
        [example] = await library.examples(project_of(batch))

        assert await library.app.fetch(examples.apply([example.id])) == []


class TestKnown:
    async def test_who_said_what_is_known(self, library: Classification, batch: Batch) -> None:
        await library.teach(project_of(batch), [Said(line=2, document="ata-00.txt", label="ata")], by="ana")
        result = (await found(library, batch))["ata-00.txt"]

        [known] = await library.app.fetch(examples.known([result.document_id]))

        assert (known.label, known.decided_by) == ("ata", "ana")


class TestWithdraw:
    async def test_undo_takes_the_example_back_and_the_result_is_what_was_found(
        self, library: Classification, batch: Batch
    ) -> None:
        before = (await found(library, batch))["oficio-00.txt"].category
        await library.teach(project_of(batch), [Said(line=2, document="oficio-00.txt", label="ata")], by="ana")
        [example] = await library.examples(project_of(batch))

        await library.forget(example.id, by="ana")

        after = (await found(library, batch))["oficio-00.txt"]
        assert (after.category, after.decided_by) == (before, None)
        assert await library.examples(project_of(batch)) == []
        with pytest.raises(Conflict, match="taken back already"):
            await library.forget(example.id, by="ana")


class TestCounts:
    async def test_labels_are_counted_with_what_had_been_found(self, library: Classification, batch: Batch) -> None:
        said = [Said(line=2, document="ata-00.txt", label="ata"), Said(line=3, document="ata-01.txt", label="recibo")]
        before = {code: each.category for code, each in (await found(library, batch)).items()}
        await library.teach(project_of(batch), said, by="ana")

        counts = {each.label: (each.examples, each.agreed) for each in await library.example_counts(project_of(batch))}

        assert counts == {
            "ata": (1, int(before["ata-00.txt"] == "ata")),
            "recibo": (1, int(before["ata-01.txt"] == "recibo")),
        }


class TestLessons:
    async def test_an_example_from_elsewhere_comes_with_the_place_of_its_document(
        self, library: Classification, batch: Batch
    ) -> None:
        await library.teach(project_of(batch), [Said(line=2, document="ata-00.txt", label="ata")], by="ana")
        space = LocalClassifier(Lexical()).space

        [inside] = await library.app.fetch(examples.lessons(project_of(batch), batch.id, space))
        [elsewhere] = await library.app.fetch(examples.lessons(project_of(batch), 404, space))

        assert (inside.label, inside.title, inside.inside, inside.place) == ("ata", "ata-00.txt", True, None)
        assert (elsewhere.inside, elsewhere.place is not None, elsewhere.kept) == (False, True, None)


class TestUnplaced:
    async def test_the_text_of_an_example_is_placed_when_its_document_is_not(
        self, library: Classification, batch: Batch
    ) -> None:
        await library.teach(project_of(batch), [Said(line=2, document="ata-00.txt", label="ata")], by="ana")
        space = LocalClassifier(Lexical()).space

        assert await library.app.fetch(examples.unplaced(project_of(batch), batch.id, "another", limit=9)) == []
        assert await library.app.fetch(examples.unplaced(project_of(batch), 404, space, limit=9)) == []
        [(sha, text)] = await library.app.fetch(examples.unplaced(project_of(batch), 404, "another", limit=9))
        await library.app.fetch(refinements.keep_vectors("another", {sha: b"12"}))

        assert text.startswith("Aos 3 dias reuniram-se")
        assert await library.app.fetch(examples.unplaced(project_of(batch), 404, "another", limit=9)) == []


class TestPage:
    async def test_examples_come_in_order_a_page_at_a_time(self, library: Classification, batch: Batch) -> None:
        said = [Said(line=place, document=f"ata-{place:02}.txt", label="ata") for place in range(3)]
        await library.teach(project_of(batch), said, by="ana")

        first = await library.examples(project_of(batch), limit=2)
        rest = await library.examples(project_of(batch), after=first[-1].id)

        assert [each.code for each in (*first, *rest)] == ["ata-00.txt", "ata-01.txt", "ata-02.txt"]


class TestLearn:
    async def test_a_decision_at_the_desk_is_an_example_and_its_undo_takes_it_back(
        self, library: Classification, batch: Batch, psql: Any
    ) -> None:
        await mistaken(library, psql, batch)
        [waiting] = await library.app.reviews.next("ana")
        await library.app.reviews.correct(waiting.review.id, {"category": "ofício"}, "ana", name="Ana")
        [taught] = await library.examples(project_of(batch))
        await library.app.reviews.undo("ana", name="Ana")

        assert (taught.label, taught.proposed, taught.source, taught.decided_by) == (
            "ofício",
            "recibo",
            "review",
            "Ana",
        )
        assert await library.examples(project_of(batch)) == []
        await library.app.reviews.correct(waiting.review.id, {"category": "ofício"}, "ana")
        [again] = await library.examples(project_of(batch))
        with pytest.raises(Conflict, match="review desk"):
            await library.forget(again.id, by="bruno")


async def test_a_correction_changes_its_neighbours_after_a_refinement_and_never_what_a_person_confirmed(
    library: Classification, batch: Batch, psql: Any
) -> None:
    await mistaken(library, psql, batch)
    said = [Said(line=place, document=f"oficio-{place:02}.txt", label="ofício") for place in range(3)]
    said.append(Said(line=9, document="oficio-09.txt", label="recibo"))  # a person's word, right or wrong
    await library.teach(project_of(batch), said, by="ana")

    done = await refined(library, batch)

    now = await found(library, batch)
    assert done.state == "completed"
    assert [code for code in wrong(now) if code.startswith("oficio")] == ["oficio-09.txt"]
    assert (now["oficio-09.txt"].category, now["oficio-09.txt"].decided_by) == ("recibo", "ana")
    assert done.changed >= 8
    assert (done.examples, done.total) == (4, 36)
    assert ("recibo", "ofício") in {(was, then) for was, then, _ in done.gain.moves}
    assert done.gain.decided == 4
    assert done.gain.agreed_after >= done.gain.agreed_before


async def test_a_later_batch_of_the_project_starts_from_the_examples(
    library: Classification, batch: Batch, psql: Any
) -> None:
    said = [Said(line=place, document=f"oficio-{place:02}.txt", label="ofício") for place in range(4)]
    await library.teach(project_of(batch), said, by="ana")
    later = [
        (await library.add_document(project_of(batch), f"oficio-x{n}.txt", LETTER.format(n=n, m=n * 3).encode())).id
        for n in range(100, 132)
    ]
    second = await library.start(project_of(batch), documents=later)
    await drain(library.app)
    psql.execute(
        "update retoma.classifications set category = 'recibo', confidence = 'baixa' where batch_id = %s", [second.id]
    )
    psql.commit()

    done = await refined(library, second)

    assert done.examples == 4
    assert {each.category for each in await library.results(second.id)} == {"ofício"}


async def test_every_change_by_button_keeps_what_it_was_what_it_is_and_why_in_the_one_table(
    library: Classification, batch: Batch, psql: Any
) -> None:
    await mistaken(library, psql, batch)
    said = [Said(line=place, document=f"oficio-{place:02}.txt", label="ofício") for place in range(3)]
    await library.teach(project_of(batch), said, by="ana")
    before = await found(library, batch)

    done = await refined(library, batch)

    now = await found(library, batch)
    moved = {code for code, each in now.items() if each.category != before[code].category}
    kept = {
        id: (was["category"], then["category"], why["rule"])
        for id, was, then, why in psql.execute(
            "select result_id, before, after, why from classification.changes join classification.findings as finding"
            " on finding.id = finding_id where job_id = %s and applied_at is not null",
            [done.job_id],
        )
    }
    assert len(moved) == done.changed > 0
    for code in moved:
        assert kept[now[code].id][:2] == (before[code].category, now[code].category)
        assert now[code].was_label == before[code].category, "the page says so"
    assert "example" in {kept[now[code].id][2] for code in moved}


async def test_results_of_an_older_program_are_placed_before_they_are_compared(
    library: Classification, batch: Batch, psql: Any
) -> None:
    psql.execute("delete from classification.document_vectors")
    psql.commit()

    done = await refined(library, batch)

    placed = psql.execute("select count(*) from classification.document_vectors").fetchone()
    finding = await library.finding(batch.id)
    assert (placed, done.total) == ((36,), 36)
    assert finding is not None
    assert finding.documents == 36


async def test_a_result_that_a_refinement_makes_doubtful_comes_to_the_desk_although_it_had_left_it(
    library: Classification, batch: Batch, psql: Any
) -> None:
    one = next(iter((await found(library, batch)).values()))
    psql.execute("update retoma.classifications set confidence = 'baixa' where id = %s", [one.id])
    psql.commit()
    await library.app.reviews.find(batch_id=batch.id, limit=100)
    psql.execute("update retoma.reviews set state = 'gone', settled_at = now() where item = %s", [str(one.id)])
    psql.execute(
        "with finding as (insert into classification.findings (batch_id, job_id, outcome, documents, changed, others,"
        " rounds, groups, unused) values (%s, 1, 'refined', 36, 0, 0, 1, '[]', '[]') returning id)"
        " insert into classification.changes (finding_id, result_id, before, after, why, applied_at)"
        " select id, %s, '{}', '{}', '{}', now() + interval '1 second' from finding",
        [batch.id, one.id],
    )
    psql.commit()

    doubts = await library.app.fetch(reviews.doubts(100))

    assert [each.item for each in doubts] == [str(one.id)]


async def test_who_asks_while_a_refinement_is_at_work_gets_that_one(library: Classification, batch: Batch) -> None:
    first, new = await library.refine(batch.id, by="ana")
    second, again = await library.refine(batch.id, by="bruno")

    assert (first.id, new, again) == (second.id, True, False)
    assert second.asked_by == "ana"


async def test_a_refined_result_is_what_the_review_desk_proposes(
    library: Classification, batch: Batch, psql: Any
) -> None:
    await mistaken(library, psql, batch)
    assert {each.label for each in await library.app.reviews.find(batch_id=batch.id)} >= {"recibo"}
    said = [Said(line=place, document=f"oficio-{place:02}.txt", label="ofício") for place in range(4)]
    await library.teach(project_of(batch), said, by="ana")

    await refined(library, batch)

    now = {str(each.id): each for each in await library.results(batch.id)}
    waiting = await library.app.reviews.find(batch_id=batch.id, limit=100)
    assert all(each.label == now[each.item].category for each in waiting)
    assert all(now[each.item].to_review for each in waiting)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest", "no CSV"),
        (b"a;b\n1;2\n", "No column names the document and the label"),
        (b"file,size\nx,1\n", "No column names the label"),
    ],
)
def test_a_file_that_teaches_nothing_says_why(content: bytes, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_lesson(content)


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("file,label\nação.txt,petição\n".encode(), "utf-8"),
        ("\ufefffile,label\nação.txt,petição\n".encode(), "utf-8"),
        ("Nome do arquivo;Rótulo\r\nação.txt;petição\r\n".encode("cp1252"), "cp1252"),
        ("documento\tTipo\nação.txt\tpetição\n".encode("utf-16"), "utf-16"),
        ('"Código do documento"|categoria\n"ação.txt"|"petição"\n'.encode(), "utf-8"),
    ],
)
def test_names_separators_and_encodings_are_recognised(content: bytes, encoding: str) -> None:
    lesson = read_lesson(content)

    assert [(each.line, each.document, each.label) for each in lesson.said] == [(2, "ação.txt", "petição")]
    assert lesson.encoding == encoding


@pytest.fixture(autouse=True)
def _letters_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder of letters: the model takes a second to load, and decides nothing here."""
    monkeypatch.setattr("retoma.providers.local.embed.best_encoder", Lexical)
