"""Save, corrupt, kill and resume in any order, against a model that knows only which chapters are whole.

The same story runs over files in a folder and over rows of a real PostgreSQL.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from book_rows import begun
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sample_books import SESSION, body_of, ours

from retoma.app.fetch import fetch
from retoma.pipelines.books import checkpoints, folder, sessions
from retoma.pipelines.books.compose import sealed
from retoma.pipelines.books.rows import judged_rows
from retoma.pipelines.books.search import Search, search
from retoma.pipelines.books.verdicts import Expected, judge

pytestmark = pytest.mark.timeout(600)

CHAPTERS = tuple(str(number) for number in range(1, 7))
SPOILED = {
    "cut": "not_json",
    "emptied": "file_empty",
    "flipped": "checksum_differs",
    "without a part": "component_missing",
    "of another session": "session_differs",
    "of another chapter": "name_differs",
    "out of time": "times_out_of_order",
    "null": "summary_incomplete",
}


class Resuming(RuleBasedStateMachine):
    """A run over six chapters that is killed wherever something is saved, and is spoiled in between. What holds the
    checkpoints is a subclass.
    """

    session = SESSION

    def __init__(self) -> None:
        super().__init__()
        self.minute = 1
        self.whole: dict[str, bytes] = {}
        self.spoiled: dict[str, str] = {}

    # — what a holder does —

    def look(self) -> Search:
        raise NotImplementedError

    def save(self, number: str, body: bytes) -> None:
        raise NotImplementedError

    def die_while_saving(self, number: str, body: bytes) -> None:
        raise NotImplementedError

    def overwrite(self, number: str, body: bytes) -> None:
        """Behind the back of the program."""
        raise NotImplementedError

    def remove(self, number: str) -> None:
        raise NotImplementedError

    def held(self, number: str) -> bytes:
        raise NotImplementedError

    def reasons_are_known(self, found: Search) -> None:
        raise NotImplementedError

    def any_was_there(self, found: Search) -> bool:
        """Whether something is held, though nothing of it is valid."""
        return bool(found.invalid)

    # — what happens —

    def body(self, number: str) -> bytes:
        self.minute += 1
        done = tuple(each for each in CHAPTERS if each in self.whole and each != number)
        return body_of(ours(number, session=self.session, minute=self.minute % 60 or 1, done=done))

    @precondition(lambda self: len(self.whole) < len(CHAPTERS))
    @rule(chapters=st.integers(1, 3), dies=st.sampled_from([None, "before", "while saving", "after"]))
    def resume(self, chapters: int, dies: str | None) -> None:
        """Go on where the search says, and be killed at the last of so many chapters, or not."""
        todo = self.look().unprocessed[:chapters]
        for number in todo:
            assert number not in self.whole, "a chapter that is whole would be processed again"
            body = self.body(number)
            if number == todo[-1] and dies == "before":
                return
            if number == todo[-1] and dies == "while saving":
                self.die_while_saving(number, body)
                return
            self.save(number, body)
            self.whole[number] = body
            self.spoiled.pop(number, None)

    @precondition(lambda self: bool(self.whole))
    @rule(how=st.sampled_from(sorted(SPOILED)), data=st.data())
    def spoil(self, how: str, data: st.DataObject) -> None:
        """Something happens to a checkpoint that was whole."""
        number = data.draw(st.sampled_from(sorted(self.whole)))
        self.overwrite(number, self._spoiled(number, how, data))
        del self.whole[number]
        self.spoiled[number] = SPOILED[how]

    def _spoiled(self, number: str, how: str, data: st.DataObject) -> bytes:
        body, value = self.whole[number], copy.deepcopy(ours(number, session=self.session))
        match how:
            case "cut":
                return body[: data.draw(st.integers(1, len(body) - 1))]
            case "emptied":
                return b""
            case "flipped":
                value["chapter_summary"]["titulo"] += "?"
                return body_of(value)
            case "without a part":
                del value[data.draw(st.sampled_from(["chapter_summary", "coverage_report", "metadata"]))]
            case "of another session":
                value = ours(number, session="another")
            case "of another chapter":
                value = ours("99", session=self.session)
            case "out of time":
                value["metadata"]["timestamp_inicio"] = "2027-01-01T00:00:00"
            case _:
                value["chapter_summary"]["resumo"] = None
        return sealed(value)

    @precondition(lambda self: bool(self.whole))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """A checkpoint is gone: a gap."""
        number = data.draw(st.sampled_from(sorted(self.whole)))
        self.remove(number)
        del self.whole[number]

    # — what must hold —

    @invariant()
    def the_search_knows_what_the_model_knows(self) -> None:
        found = self.look()
        assert set(found.usable) == set(self.whole)
        assert found.unprocessed == tuple(number for number in CHAPTERS if number not in self.whole)
        self.reasons_are_known(found)
        if self.whole:
            assert found.outcome == ("resumable" if found.unprocessed else "complete")
        else:
            assert found.outcome == ("none_valid" if self.any_was_there(found) else "no_checkpoint")

    @invariant()
    def what_is_whole_is_never_touched(self) -> None:
        for number, body in self.whole.items():
            assert self.held(number) == body


class OverFiles(Resuming):
    """Checkpoints are files of a folder."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="retoma-machine-"))

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    def path(self, number: str) -> Path:
        return self.place / folder.file_name(SESSION, number)

    def look(self) -> Search:
        return search(folder.candidates(self.place, SESSION), chapters=CHAPTERS, expected=Expected(session_id=SESSION))

    def save(self, number: str, body: bytes) -> None:
        folder.write(self.place, folder.file_name(SESSION, number), body)

    def die_while_saving(self, number: str, body: bytes) -> None:
        del number  # the part of a file has a name that says nothing
        (self.place / ".0123.part").write_bytes(body[: len(body) // 2])  # nobody tidies up after a kill

    def overwrite(self, number: str, body: bytes) -> None:
        self.path(number).write_bytes(body)

    def remove(self, number: str) -> None:
        self.path(number).unlink()

    def held(self, number: str) -> bytes:
        return self.path(number).read_bytes()

    def reasons_are_known(self, found: Search) -> None:
        assert {each.candidate.chapter_number: each.verdict.reason for each in found.invalid} == self.spoiled


TestResuming = OverFiles.TestCase
TestResuming.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


class OverRows(Resuming):
    """Checkpoints are rows; each example is a session of its own in one database."""

    numbers = itertools.count(1)

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.session = f"machine-{next(self.numbers)}"
        self.aside: Counter[tuple[str, str, bytes]] = Counter()
        """All that was ever spoiled: the chapter, the reason, and the bytes, which are kept."""
        self.psql = psycopg.connect(url, autocommit=True)
        begun(self.psql, self.session, self.session)

    def teardown(self) -> None:
        self.psql.close()

    def look(self) -> Search:
        """As every attempt begins: the session's row is locked, each row is judged, what is invalid is set aside."""

        async def looked() -> Search:
            async with await psycopg.AsyncConnection.connect(self.url) as connection:
                assert await fetch(connection, sessions.hold(self.session))
                return (await judged_rows(connection, Expected(session_id=self.session), CHAPTERS)).search

        return asyncio.run(looked())

    def save(self, number: str, body: bytes) -> None:
        asyncio.run(self._save(number, body, commits=True))

    def die_while_saving(self, number: str, body: bytes) -> None:
        asyncio.run(self._save(number, body, commits=False))

    async def _save(self, number: str, body: bytes, *, commits: bool) -> None:
        connection = await psycopg.AsyncConnection.connect(self.url)
        await fetch(connection, sessions.hold(self.session))
        verdict = judge(body, Expected(session_id=self.session))
        await fetch(connection, checkpoints.save(self.session, number, body, verdict, origin="run"))
        if commits:
            await connection.commit()
        await connection.close()  # what the server sees of a process that is killed

    def overwrite(self, number: str, body: bytes) -> None:
        changed = self.psql.execute(
            "update books.checkpoints set body = %s "
            "where session_id = %s and chapter_number = %s and verdict = 'valid'",
            [body, self.session, number],
        )
        assert changed.rowcount == 1

    def remove(self, number: str) -> None:
        self.psql.execute(
            "delete from books.checkpoints where session_id = %s and chapter_number = %s and verdict = 'valid'",
            [self.session, number],
        )

    def held(self, number: str) -> bytes:
        (row,) = self.psql.execute(
            "select body from books.checkpoints where session_id = %s and chapter_number = %s and verdict = 'valid'",
            [self.session, number],
        ).fetchall()
        return bytes(row[0])

    def any_was_there(self, found: Search) -> bool:
        return bool(found.invalid or self.aside)

    def reasons_are_known(self, found: Search) -> None:
        """What was spoiled is marked by its reason, and stays as it was found, whatever came after it."""
        for each in found.invalid:
            number, reason = str(each.candidate.chapter_number), str(each.verdict.reason)
            assert self.spoiled[number] == reason
            self.aside[(number, reason, each.candidate.body)] += 1
        rows = self.psql.execute(
            "select chapter_number, reason, body from books.checkpoints where session_id = %s and verdict = 'invalid'",
            [self.session],
        ).fetchall()
        assert Counter((number, reason, bytes(body)) for number, reason, body in rows) == self.aside


def test_rows_of_a_database_follow_the_same_model(database_url: str) -> None:
    run_state_machine_as_test(
        lambda: OverRows(database_url),
        settings=settings(
            max_examples=12, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
