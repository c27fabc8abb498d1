"""Books from beginning to end: kept, found again, resumed, never done twice, planned, paused, taken away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from sample_books import CountingEditor, TextExtractor, book_text

from retoma import Retoma
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.pipelines import BOOKS
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.ports import Chapter, ChapterPlan, Editor
from retoma.pipelines.books.remarks import remark
from retoma.pipelines.books.text import edits
from retoma.providers import BlobStore, Extractor, RequestRejected
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain


async def pieces(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


async def sent(books: Books, text: str | None = None, name: str = "livro.md") -> str:
    return (await books.summarise(name, pieces(text or book_text()))).session.id


def ruin(psql: psycopg.Connection, session: str, number: str, how: str = "set_byte(body, 40, 0)") -> None:
    """A disk, or somebody, changes a row behind our back."""
    psql.execute(f"update books.checkpoints set body = {how} where session_id = %s and chapter_number = %s",
                 [session, number])  # fmt: skip


class TestSummarising:
    async def test_every_chapter_is_one_recorded_step_and_one_valid_checkpoint(
        self, books: Books, app: Retoma, editor: CountingEditor, extractor: TextExtractor
    ) -> None:
        id = await sent(books)
        assert (await books.get(id)).state == "in_progress"

        await drain(app)

        session = await books.get(id)
        assert (session.state, session.done, session.chapters, session.passed) == ("done", 3, 3, 3)
        assert editor.summarised == ["1", "2", "3"]
        assert extractor.read == 1
        assert session.job_id is not None
        steps = [each.step for each in await app.jobs.checkpoints(session.job_id)]
        assert [step for step in steps if step.startswith("chapter/")] == ["chapter/1/1", "chapter/2/1", "chapter/3/1"]
        results = await books.results(id)
        assert list(results) == ["1", "2", "3"]
        assert [each.metadata.capitulos_processados for each in results.values()] == [
            ["1"],
            ["1", "2"],
            ["1", "2", "3"],
        ]
        assert results["2"].metadata.total_chunks_por_capitulo == {"1": 1, "2": 1}

    async def test_a_chapter_without_examples_says_so_and_is_valid(self, books: Books, app: Retoma) -> None:
        id = await sent(books)
        await drain(app)

        found = await books.result(id, "1")

        assert found.chapter_summary.exemplos == ["O capítulo não traz exemplos."]
        assert found.retoma is not None
        assert list(found.retoma.shortfalls) == ["exemplos"]

    async def test_the_same_content_and_configuration_finds_its_session(
        self, books: Books, app: Retoma, editor: CountingEditor, tmp_path: Path
    ) -> None:
        first = await sent(books)
        await drain(app)

        again = await books.summarise("other-name.md", pieces(book_text()))

        assert again.found
        assert again.session.id == first
        assert again.session.state == "done"
        assert await drain(app) == 0
        assert len(editor.summarised) == 3
        assert len([path for path in (tmp_path / "blobs" / "files").rglob("*") if path.is_file()]) == 1

    async def test_equal_chapters_of_another_edition_are_taken_over_and_only_the_new_one_is_done(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        await sent(books)
        await drain(app)
        editor.summarised.clear()

        id = await sent(books, book_text(4))
        await drain(app)

        assert editor.summarised == ["4"]
        standing = await books.chapters(id)
        assert [each.origin for each in standing] == ["reuse", "reuse", "reuse", "run"]
        assert (await books.get(id)).state == "done"

    async def test_a_book_without_words_is_rejected_with_its_reason(
        self, books: Books, app: Retoma, editor: CountingEditor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blank = ChapterPlan(chapters=(Chapter(number="1", title="Nada", text=" \n "),))
        monkeypatch.setattr(editor, "detect", lambda _: blank)
        id = await sent(books)
        await drain(app)

        session = await books.get(id)
        assert session.state == "failed"
        assert (session.reason or "").startswith("no_text")

    async def test_a_list_in_doubt_waits_for_a_person_before_anything_is_paid(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        editor.doubts = (remark("much_left_out", percent=90),)
        id = await sent(books)
        await drain(app)
        session = await books.get(id)
        assert (session.state, session.reason, session.done) == ("paused", "review", 0)
        assert editor.summarised == []

        chapters = [each.as_chapter() for each in await books.texts(id)]
        merged = Chapter(number="1", title="Junto", text=chapters[0].text + "\n\n" + chapters[1].text, pages=(1,))
        await books.approve(id, [merged, chapters[2]])
        await drain(app)

        assert editor.summarised == ["1", "3"]
        assert (await books.get(id)).state == "done"
        with pytest.raises(Conflict):
            await books.approve(id, [merged])

    async def test_a_person_changes_a_list_in_doubt_piece_by_piece_and_accepts_it_at_the_end(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        editor.doubts = (remark("much_left_out", percent=90),)
        id = await sent(books)
        await drain(app)

        await books.edit(id, lambda plan: edits.merge(plan, "1", "2"))
        await books.edit(id, lambda plan: edits.rename(plan, "1", "Junto"))
        await books.edit(id, lambda plan: edits.leave_out(plan, "3"))

        assert [(each.number, each.title) for each in await books.chapters(id)] == [("1", "Junto")]
        assert [each.kind for each in (await books.proposed(id)).left_out] == ["by hand"]
        assert ((await books.get(id)).state, editor.summarised) == ("paused", [])
        await books.approve(id)
        with pytest.raises(Conflict):
            await books.edit(id, lambda plan: plan)
        await drain(app)
        assert editor.summarised == ["1"]
        with pytest.raises(Conflict):
            await books.edit(id, lambda plan: plan)


class TestResuming:
    async def test_a_chapter_that_fails_stops_no_other_and_resume_does_only_that_one(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        editor.fails["2"] = RequestRejected("It is too long.", provider="test", paid=False)
        id = await sent(books)
        await drain(app)
        session = await books.get(id)
        assert (session.state, session.done) == ("failed", 2)
        assert "chapter 2" in (session.reason or "")
        editor.fails.clear()
        editor.summarised.clear()

        await books.resume(id)
        await drain(app)

        assert editor.summarised == ["2"]
        assert (await books.get(id)).state == "done"
        assert (await books.result(id, "2")).metadata.capitulos_processados == ["1", "2", "3"]

    async def test_resume_is_the_same_however_often_it_is_asked(self, books: Books, app: Retoma) -> None:
        id = await sent(books)

        jobs = {(await books.resume(id)).job_id for _ in range(3)}
        await drain(app)

        assert len(jobs) == 1
        assert (await books.resume(id)).state == "done"
        assert await drain(app) == 0

    async def test_a_checkpoint_that_was_ruined_is_named_kept_and_only_its_chapter_is_done_again(
        self, books: Books, app: Retoma, editor: CountingEditor, psql: psycopg.Connection
    ) -> None:
        id = await sent(books)
        await drain(app)
        editor.summarised.clear()
        ruin(psql, id, "2", "substr(body, 1, 100)")

        found = await books.check(id)
        assert [each.verdict.reason for each in found.search.invalid] == ["not_json"]
        assert found.search.unprocessed == ("2",)
        assert (await books.get(id)).state == "paused"
        await books.resume(id)
        await drain(app)

        assert editor.summarised == ["2"]
        rows = [
            (row.version, row.verdict, row.reason) for row in await books.checkpoints(id) if row.chapter_number == "2"
        ]
        assert sorted(rows) == [(1, "invalid", "not_json"), (2, "valid", None)]
        assert (await books.get(id)).state == "done"

    async def test_with_none_valid_it_begins_at_the_first_chapter_and_says_so(
        self, books: Books, app: Retoma, editor: CountingEditor, psql: psycopg.Connection
    ) -> None:
        id = await sent(books)
        await drain(app)
        for number in "123":
            ruin(psql, id, number, "''::bytea")
        editor.summarised.clear()

        found = await books.check(id)
        await books.resume(id)
        await drain(app)

        assert found.search.outcome == "none_valid"
        assert found.search.next_chapter == "1"
        assert {each.verdict.reason for each in found.search.judged} == {"file_empty"}
        assert editor.summarised == ["1", "2", "3"]
        assert (await books.get(id)).invalid == 3

    async def test_an_attempt_that_finds_a_ruined_row_does_that_chapter_again_in_the_same_job(
        self, books: Books, app: Retoma, editor: CountingEditor, psql: psycopg.Connection
    ) -> None:
        class Fails(Exception):
            pass

        editor.fails["3"] = Fails()
        id = await sent(books)
        await drain(app)  # all attempts but those that wait
        job = (await books.get(id)).job_id
        ruin(psql, id, "1")
        editor.fails.clear()
        editor.summarised.clear()
        psql.execute("update retoma.jobs set run_at = now() where id = %s", [job])

        await drain(app)

        assert editor.summarised == ["1", "3"]
        session = await books.get(id)
        assert (session.state, session.job_id) == ("done", job)

    async def test_another_configuration_does_not_go_on_with_a_session(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        id = await sent(books)
        editor.model = "two"

        await drain(app)

        session = await books.get(id)
        assert session.state == "failed"
        assert (session.reason or "").startswith("configuration_differs")
        assert editor.summarised == []

    async def test_a_summary_that_breaks_the_contract_is_kept_as_invalid_and_the_others_go_on(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        editor.short = {"2"}
        id = await sent(books)
        await drain(app)

        session = await books.get(id)
        assert (session.state, session.done, session.invalid) == ("failed", 2, 1)
        assert "out_of_limits" in (session.reason or "")

    async def test_pause_stops_the_work_and_resume_goes_on(self, books: Books, app: Retoma) -> None:
        id = await sent(books)

        paused = await books.pause(id)
        assert paused.state == "paused"
        assert await drain(app) == 0
        await books.resume(id)
        await drain(app)

        assert (await books.get(id)).state == "done"


class TestPlanning:
    async def test_a_plan_says_what_a_changed_configuration_does_again(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        id = await sent(books)
        await drain(app)
        same = await books.plan(id)
        editor.model = "two"

        other = await books.plan(id)

        assert (same.session_id, same.reused, same.redone_words) == (id, 3, 0)
        assert (other.session_id, other.reused, other.redone_words) == (None, 0, 1200)
        assert other.cost == 0, "it costs nothing here"
        editor.bills = True
        assert (await books.plan(id)).cost is None, "nobody has paid for such a word yet"

    async def test_the_changed_configuration_is_a_session_of_its_own(
        self, books: Books, app: Retoma, editor: CountingEditor
    ) -> None:
        first = await sent(books)
        await drain(app)
        editor.model = "two"

        second = await sent(books)
        await drain(app)

        assert second != first
        assert editor.summarised == ["1", "2", "3"] * 2
        assert [(await books.get(id)).state for id in (first, second)] == ["done", "done"]
        assert [each.id for each in await books.page(limit=1)] == [second]


class TestReaders:
    async def test_feedback_is_kept_and_answered(self, books: Books) -> None:
        id = await sent(books)

        said = await books.say(id, "question", "Por quê?", chapter="2", created_by="ana")
        await books.answer(id, said.id, "Porque sim.", answered_by="bruno")

        assert [(each.message, each.answer) for each in await books.feedback(id)] == [("Por quê?", "Porque sim.")]
        with pytest.raises(ConfigurationError):
            await books.say(id, "rant", "no")
        with pytest.raises(ConfigurationError):
            await books.say(id, "error", "  ")
        with pytest.raises(NotFound):
            await books.answer(id, said.id + 1, "?")

    async def test_a_book_that_is_removed_takes_its_input_with_it(
        self, books: Books, app: Retoma, tmp_path: Path
    ) -> None:
        id = await sent(books)
        await drain(app)

        assert await books.remove(id)

        assert not await books.remove(id)
        with pytest.raises(NotFound):
            await books.get(id)
        assert [path for path in (tmp_path / "blobs" / "files").rglob("*") if path.is_file()] == []

    async def test_a_chapter_that_is_not_done_is_not_found(self, books: Books) -> None:
        id = await sent(books)

        with pytest.raises(NotFound):
            await books.result(id, "1")


async def test_the_editor_of_this_machine_meets_the_contract_on_a_real_text(
    database_url: str, tmp_path: Path, extractor: TextExtractor
) -> None:
    """Without a key and without an editor of one's own."""
    parts = []
    for number in range(1, 4):
        said = [
            f"No capítulo {number}, a parte {part} explica que o sistema deve guardar o trabalho {part * number}. "
            f"Por exemplo, {part + 20} pessoas usaram o serviço, e cada uma delas viu o resultado."
            for part in range(40)
        ]
        parts.append(f"## Capítulo {number}\n\n" + " ".join(said))
    providers = {BlobStore: FolderBlobs(tmp_path / "b"), Extractor: extractor}
    async with Retoma(database_url, extensions=[BOOKS], providers=providers) as app:
        books = Books(app)
        assert not app.provides(Editor)
        id = await sent(books, "\n\n".join(parts))
        await drain(app)
        session = await books.get(id)
        assert (session.state, session.done) == ("done", 3), session.reason
        assert json.loads(session.configuration)["provider"] == "local"
