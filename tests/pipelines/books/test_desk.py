"""Lists of chapters in doubt, at the review desk; and the blocks of desk.sql."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sample_books import CountingEditor, book_text

from retoma.errors import ConfigurationError, Conflict
from retoma.pipelines.books import desk
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.remarks import remark
from retoma.testing import drain
from retoma.web.words.sentences import in_portuguese


@pytest.fixture
async def session(books: Books, editor: CountingEditor) -> Any:
    """A book whose list of chapters is in doubt."""
    editor.doubts = (remark("much_left_out", percent=90),)

    async def pieces() -> AsyncIterator[bytes]:
        yield book_text().encode()

    started = await books.summarise("livro.md", pieces())
    await drain(books.app)
    return await books.get(started.session.id)


class TestSeen:
    async def test_a_person_sees_how_each_chapter_begins(self, books: Books, session: Any) -> None:
        [found] = await books.app.reviews.next("ana")

        assert (found.review.source, found.review.pipeline, found.review.job_id) == ("job", "books", session.job_id)
        assert found.evidence.link == f"/books/{session.id}/review"
        assert dict(found.evidence.facts)["book"] == session.title
        assert (await books.texts(session.id))[0].title in found.evidence.text

    async def test_what_is_in_doubt_is_said_in_the_language_of_the_reader(self, books: Books, session: Any) -> None:
        [found] = await books.app.reviews.next("ana")
        said = [found.review.reason, dict(found.evidence.facts)["doubt"]]

        assert found.review.title == session.title
        assert said == [
            "The list of chapters is in doubt.",
            "90 % of the words are left out: check what is no chapter.",
        ]
        assert [in_portuguese(each, packages=("retoma.pipelines.books",)) for each in said] == [
            "A lista de capítulos está em dúvida.",
            "90 % das palavras ficaram de fora: confira o que não é capítulo.",
        ]

    async def test_an_accepted_list_lets_the_book_go_on(self, books: Books, session: Any) -> None:
        [found] = await books.app.reviews.next("ana")

        await books.app.reviews.accept(found.review.id, "ana")
        await drain(books.app)

        assert (await books.get(session.id)).state == "done"
        assert await books.app.reviews.find() == []
        assert await books.app.system.verify() == []

    async def test_a_list_that_was_accepted_on_its_own_page_waits_no_more(self, books: Books, session: Any) -> None:
        await books.approve(session.id)

        assert await books.app.reviews.next("ana") == []

    async def test_a_list_is_not_corrected_here(self, books: Books, session: Any) -> None:
        [found] = await books.app.reviews.next("ana")

        with pytest.raises(ConfigurationError, match="changed on the page of its book"):
            await books.app.reviews.correct(found.review.id, [], "ana")
        await books.app.reviews.reject(found.review.id, "ana", note="no book")

        now = await books.get(session.id)
        assert (now.state, now.reason) == ("failed", "ana rejected it in review: no book")


class TestWithdraw:
    async def test_an_acceptance_is_undone_while_nothing_came_of_it(self, books: Books, session: Any) -> None:
        [found] = await books.app.reviews.next("ana")
        await books.app.reviews.accept(found.review.id, "ana")

        await books.app.reviews.undo("ana")

        now = await books.get(session.id)
        assert (now.state, now.reason, now.approved_at) == ("paused", "review", None)
        assert [each.review.id for each in await books.app.reviews.next("ana")] == [found.review.id]

    async def test_a_book_that_has_gone_on_stays_so(self, books: Books, session: Any) -> None:
        [found] = await books.app.reviews.next("ana")
        await books.app.reviews.accept(found.review.id, "ana")
        await drain(books.app)

        with pytest.raises(Conflict, match="cannot be undone"):
            await books.app.reviews.undo("ana")
        assert await books.app.fetch(desk.withdraw(session.job_id)) == []
