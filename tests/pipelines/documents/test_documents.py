"""Each statement about documents does what its comment says."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest

from retoma.pipelines.documents import documents
from retoma.pipelines.documents.model import Arrival, NewDocument
from retoma.pipelines.files.ingest import File
from retoma.store.query import Query

T = TypeVar("T")


def ask(connection: psycopg.Connection, query: Query[T]) -> list[T]:
    return [query.row(*row) for row in connection.execute(query.sql, query.params).fetchall()]


def an_arrival(content: str = "a", filename: str = "a.txt", *, blob: str | None = None) -> Arrival:
    file = File(filename, "txt", "text/plain", 1, content, blob or f"files/{content}")
    return Arrival(file, uploaded_by="somebody", correlation_id=f"of {filename}")


def take_in(connection: psycopg.Connection, *arrivals: Arrival) -> dict[str, tuple[UUID | None, bool]]:
    """What became of each, by its blob, and whether its blob was held."""
    for each in arrivals:
        connection.execute("insert into retoma.loose_blobs (blob) values (%s) on conflict do nothing", [each.file.blob])
    return {blob: (id, held) for blob, id, held in ask(connection, documents.receive(arrivals))}


def received(psql: psycopg.Connection, content: str = "a", filename: str = "a.txt") -> UUID:
    id, held = take_in(psql, an_arrival(content, filename))[f"files/{content}"]
    assert held
    assert id is not None
    return id


def loose(psql: psycopg.Connection) -> set[str]:
    return {blob for (blob,) in psql.execute("select blob from retoma.loose_blobs").fetchall()}


def queued(psql: psycopg.Connection, id: UUID) -> int:
    job = psql.execute(
        "insert into retoma.jobs (queue, pipeline, key, max_attempts, timeout_seconds, input)"
        " values ('documents', 'documents', %s, 3, 120, '{}') returning id",
        [str(id)],
    ).fetchone()
    assert job is not None
    ask(psql, documents.queue({id: job[0]}))
    return int(job[0])


class TestReceive:
    def test_equal_content_gives_no_second_row_and_its_blob_stays_loose(self, psql: psycopg.Connection) -> None:
        assert received(psql, "a")

        assert take_in(psql, an_arrival("a", "b.txt", blob="files/b")) == {"files/b": (None, True)}
        assert loose(psql) == {"files/b"}

    def test_of_equal_ones_in_the_same_group_one_becomes_a_document(self, psql: psycopg.Connection) -> None:
        became = take_in(psql, an_arrival("a", blob="files/1"), an_arrival("a", blob="files/2"), an_arrival("c"))

        assert [held for _, held in became.values()] == [True] * 3
        assert len([id for id, _ in became.values() if id is not None]) == 2
        assert became["files/c"][0] is not None
        assert len(loose(psql)) == 1

    def test_each_keeps_who_sent_it_and_the_request_it_came_with(self, psql: psycopg.Connection) -> None:
        became = take_in(psql, an_arrival("a", "a.txt"), an_arrival("b", "b.txt"))

        found = ask(psql, documents.some([id for id, _ in became.values() if id]))
        assert {(each.blob, each.uploaded_by, each.correlation_id) for each in found} == {
            ("files/a", "somebody", "of a.txt"),
            ("files/b", "somebody", "of b.txt"),
        }

    def test_what_the_sweep_has_given_up_becomes_nothing_and_the_others_do(self, psql: psycopg.Connection) -> None:
        arrivals = [an_arrival("a"), an_arrival("b"), an_arrival("c")]
        take_in(psql, arrivals[0])
        psql.execute("delete from retoma.documents")
        psql.execute("insert into retoma.loose_blobs (blob, dropped_at) values ('files/b', now())")
        psql.execute("insert into retoma.loose_blobs (blob) values ('files/c')")

        became = {blob: (id is not None, held) for blob, id, held in ask(psql, documents.receive(arrivals))}

        assert became == {"files/a": (False, False), "files/b": (False, False), "files/c": (True, True)}

    def test_an_equal_one_that_is_not_committed_is_waited_for(
        self, psql: psycopg.Connection, database_url: str
    ) -> None:
        answers: list[Any] = []

        def second() -> None:
            with psycopg.connect(database_url, autocommit=True) as other:
                answers.append(take_in(other, an_arrival("a", blob="files/second")))

        with psql.transaction():
            assert received(psql, "a")
            thread = threading.Thread(target=second)
            thread.start()
            waits = (
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            )
            with psycopg.connect(database_url, autocommit=True) as watcher:
                while watcher.execute(waits).fetchone() != (1,):
                    assert thread.is_alive()
            assert answers == []
        thread.join()

        assert answers == [{"files/second": (None, True)}]


class TestQueue:
    def test_a_document_is_tied_to_its_job(self, psql: psycopg.Connection) -> None:
        id = received(psql)

        job = queued(psql, id)

        assert ask(psql, documents.some([id]))[0].job_id == job


class TestSome:
    def test_a_document_comes_with_the_state_of_its_job(self, psql: psycopg.Connection) -> None:
        id = received(psql)
        queued(psql, id)

        (found,) = ask(psql, documents.some([id]))

        assert (found.id, found.status, found.attempts, found.error) == (id, "PENDING", 0, None)
        assert ask(psql, documents.some([uuid4()])) == []


class TestByContent:
    def test_it_is_found_by_its_hash(self, psql: psycopg.Connection) -> None:
        id = received(psql, "hash")

        assert [each.id for each in ask(psql, documents.by_content("hash"))] == [id]
        assert ask(psql, documents.by_content("other")) == []


class TestStop:
    def test_where_a_look_at_so_many_ends(self, psql: psycopg.Connection) -> None:
        for number in range(5):
            received(psql, str(number))
        newest, *_, oldest = ask(psql, documents.page(search=None, status=None, before=None, limit=9))

        assert ask(psql, documents.stop(None, look=5)) == [oldest.number]
        assert ask(psql, documents.stop(newest.number, look=5)) == []

    @pytest.mark.parametrize("status", ["PROCESSING", "FAILED", "PENDING", None])
    def test_a_page_by_any_status_looks_at_a_bounded_number(self, psql: psycopg.Connection, status: str | None) -> None:
        psql.execute(
            "with job as (insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, state,"
            " finished_at) select 'q', 'p', 3, 60, '1', 'completed', now() from generate_series(1, 20000)"
            " returning id) insert into retoma.documents (filename, kind, mime_type, size, sha256, blob, job_id)"
            " select 'f', 'txt', 't', 1, job.id::text, job.id::text, job.id from job"
        )
        psql.execute("vacuum analyze retoma.documents, retoma.jobs")
        query = documents.page(search=None, status=status, before=None, limit=21, look=500)
        rows = psql.execute(f"explain (analyze, buffers, format json) {query.sql}", query.params).fetchone()

        assert rows is not None
        plan = rows[0][0]["Plan"]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 6000
        assert "Seq Scan" not in str(rows[0])


class TestPage:
    def test_newest_first_below_a_number(self, psql: psycopg.Connection) -> None:
        ids = [received(psql, str(number)) for number in range(5)]

        first = ask(psql, documents.page(search=None, status=None, before=None, limit=2))
        rest = ask(psql, documents.page(search=None, status=None, before=first[-1].number, limit=10))

        assert [each.id for each in (*first, *rest)] == ids[::-1]

    @pytest.mark.parametrize(
        ("search", "names"),
        [
            ("b", ["a\\b.txt", "b_c.txt", "50%b.txt"]),
            ("%", ["50%b.txt"]),
            ("_", ["b_c.txt"]),
            ("\\", ["a\\b.txt"]),
            ("B_C", ["b_c.txt"]),
        ],
    )
    def test_signs_mean_themselves(self, psql: psycopg.Connection, search: str, names: list[str]) -> None:
        for name in ("50%b.txt", "b_c.txt", "a\\b.txt", "x.txt"):
            received(psql, name, name)

        found = ask(psql, documents.page(search=search, status=None, before=None, limit=10))

        assert [each.filename for each in found] == names


class TestStatuses:
    def test_a_trace_is_not_part_of_what_people_read(self, psql: psycopg.Connection) -> None:
        id = received(psql)
        job = queued(psql, id)
        psql.execute(
            "update retoma.jobs set state = 'failed', finished_at = now(), attempt = 3,"
            " error = E'Down: no answer\\n\\nTraceback (most recent call last)' where id = %s",
            [job],
        )

        (now,) = ask(psql, documents.statuses([id]))

        assert (now.status, now.attempts, now.error_log, now.job_id) == ("FAILED", 3, "Down: no answer", job)


class TestHold:
    def test_whoever_holds_a_document_is_alone(self, psql: psycopg.Connection, database_url: str) -> None:
        id = received(psql)
        with psycopg.connect(database_url) as other, psql.transaction():
            assert ask(psql, documents.hold(id)) == [NewDocument(id, "a.txt", "txt", "a", "files/a")]
            other.execute("set lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                ask(other, documents.hold(id))


class TestFinish:
    def test_it_says_when_what_was_read_was_stored(self, psql: psycopg.Connection) -> None:
        id = received(psql)
        job = queued(psql, id)
        (given,) = ask(psql, documents.hold(id))

        assert ask(psql, documents.finish(given, job, page_count=2, reader="r", attempts=1)) == [id]

        (found,) = ask(psql, documents.some([id]))
        assert (found.page_count, found.reader, found.processed_at is not None) == (2, "r", True)

    @pytest.mark.parametrize("forged", [{"id": uuid4()}, {"sha256": "0" * 64}, {"blob": "files/b"}, {"job": -1}])
    def test_it_does_nothing_for_a_job_that_is_not_the_document_s(
        self, psql: psycopg.Connection, forged: dict[str, Any]
    ) -> None:
        id = received(psql)
        job = forged.pop("job", queued(psql, id))
        (given,) = ask(psql, documents.hold(id))

        assert ask(psql, documents.finish(replace(given, **forged), job, page_count=2, reader="r", attempts=1)) == []


class TestRemove:
    def test_it_gives_back_what_is_left_to_do(self, psql: psycopg.Connection) -> None:
        id = received(psql)
        job = queued(psql, id)

        assert ask(psql, documents.remove(id)) == [("files/a", job)]
        assert ask(psql, documents.remove(id)) == []
