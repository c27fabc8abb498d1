"""Checkpoints as files: written whole, read with a verdict, and enough to go on, also those of the original system."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sample_books import SESSION, CountingEditor, TextExtractor, body_of, book_text, original, ours

from retoma import Retoma
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.pipelines import BOOKS
from retoma.pipelines.books import folder, transfer
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.ports import Editor
from retoma.providers import BlobStore, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain


async def pieces(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


async def done(books: Books, app: Retoma, text: str | None = None) -> str:
    id = (await books.summarise("livro.md", pieces(text or book_text()))).session.id
    await drain(app)
    return id


def put(place: Path, value: object, name: str | None = None) -> Path:
    said = value if isinstance(value, dict) else {}
    path = place / (name or f"{said['session_id']}_checkpoint_{said['chapter_number']}.json")
    path.write_bytes(value if isinstance(value, bytes) else body_of(value))
    return path


@contextmanager
def as_nobody() -> Iterator[None]:
    """The kernel lets root read everything: this thread looks at files as somebody else."""
    libc = ctypes.CDLL(None)
    own = libc.setfsuid(65_534) if os.geteuid() == 0 else None
    try:
        yield
    finally:
        if own is not None:
            libc.setfsuid(own)


class TestNames:
    @pytest.mark.parametrize(
        ("session", "chapter", "name"),
        [
            ("abc-1", "1", "abc-1_checkpoint_1.json"),
            ("s_1", "IV", "s_1_checkpoint_IV.json"),
            ("s", "Anexo I", "s_checkpoint_Anexo%20I.json"),
            ("../../etc", "../x", "%2E.%2F..%2Fetc_checkpoint_%2E.%2Fx.json"),
            ("s", "3_checkpoint_4", "s_checkpoint_3%5Fcheckpoint%5F4.json"),
            ("s", "ç\n", "s_checkpoint_%C3%A7%0A.json"),
        ],
    )
    def test_a_name_leads_nowhere_else_and_back(self, session: str, chapter: str, name: str) -> None:
        assert folder.file_name(session, chapter) == name
        told = folder.parsed(name)
        assert told is not None
        assert told.is_of(session, chapter)
        assert Path(name).name == name

    def test_a_name_that_is_too_long_is_told_by_its_hash(self) -> None:
        names = {folder.file_name("s" * 200, "é" * 200 + end) for end in "ab"}

        assert len(names) == 2
        assert all(len(name.encode()) < 255 for name in names)

    @pytest.mark.parametrize(
        "name", ["x.json", "_checkpoint_1.json", "a_checkpoint_.json", ".a_checkpoint_1.json", "a"]
    )
    def test_other_files_are_passed_over(self, name: str) -> None:
        assert folder.parsed(name) is None


class TestWriting:
    def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_folder_after(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        sync, move = os.fsync, Path.replace

        def fsync(number: int) -> None:
            done.append("folder" if os.path.isdir(f"/proc/self/fd/{number}") else "file")  # noqa: PTH112
            sync(number)

        def replace(path: Path, target: Path) -> Path:
            done.append("renamed")
            return move(path, target)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "replace", replace)

        folder.write(tmp_path, "a_checkpoint_1.json", b"{}")

        assert done == ["file", "renamed", "folder"]

    def test_a_disk_that_refuses_leaves_what_was_there_and_no_part(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.write(tmp_path, "a_checkpoint_1.json", b"old")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="space"):
            folder.write(tmp_path, "a_checkpoint_1.json", b"new")

        assert [path.name for path in tmp_path.iterdir()] == ["a_checkpoint_1.json"]
        assert (tmp_path / "a_checkpoint_1.json").read_bytes() == b"old"

    def test_a_name_that_leads_elsewhere_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError):
            folder.write(tmp_path, "../a", b"")


class TestChecking:
    def test_each_kind_of_file_is_named_and_the_newest_comes_first(self, tmp_path: Path) -> None:
        put(tmp_path, original("1", minute=10))
        put(tmp_path, ours("2", minute=20, done=("1",)))
        put(tmp_path, b"", f"{SESSION}_checkpoint_3.json")
        put(tmp_path, b"{", f"{SESSION}_checkpoint_4.json")
        put(tmp_path, original("9", minute=50), f"{SESSION}_checkpoint_5.json")
        put(tmp_path, original("6", session="other", minute=40), f"{SESSION}_checkpoint_6.json")
        (tmp_path / f"{SESSION}_checkpoint_7.json").mkdir()

        (found,) = transfer.check_folder(tmp_path)

        said = {each.candidate.name.rpartition("_")[2]: each.verdict.reason for each in found.judged}
        assert said == {
            "1.json": None,
            "2.json": None,
            "3.json": "file_empty",
            "4.json": "not_json",
            "5.json": "name_differs",
            "6.json": "session_differs",
            "7.json": "unreadable",
        }
        assert found.last_valid is not None
        assert found.last_valid.chapter_number == "2"
        ordered = [
            each.candidate.name for each in found.judged if each.verdict.valid or "5" in each.candidate.name[-6:]
        ]
        assert [name[-6] for name in ordered] == ["5", "2", "1"]

    def test_a_name_that_is_no_text_is_named_and_hides_no_other(self, tmp_path: Path) -> None:
        put(tmp_path, original("1"))
        for name in (
            b"%s_checkpoint_\xff.json" % SESSION.encode(),
            b"s\xff_checkpoint_1.json",
            b"s%00_checkpoint_1.json",
        ):
            put(tmp_path, original("1"), os.fsdecode(name))

        found = [each for one in transfer.check_folder(tmp_path) for each in one.judged]

        assert {each.candidate.name: each.verdict.reason for each in found} == {
            f"{SESSION}_checkpoint_1.json": None,
            f"{SESSION}_checkpoint_\ufffd.json": "name_differs",
            "s\ufffd_checkpoint_1.json": "session_differs",
            "s%00_checkpoint_1.json": "session_differs",
        }

    def test_two_files_whose_chapters_were_swapped_are_both_found(self, tmp_path: Path) -> None:
        put(tmp_path, ours("1"), f"{SESSION}_checkpoint_2.json")
        put(tmp_path, ours("2"), f"{SESSION}_checkpoint_1.json")

        (found,) = transfer.check_folder(tmp_path)

        assert [each.verdict.reason for each in found.judged] == ["name_differs"] * 2
        assert found.outcome == "none_valid"

    def test_a_file_that_is_gone_or_that_we_may_not_read_is_invalid(self, tmp_path: Path) -> None:
        path = put(tmp_path, original())
        path.chmod(0)

        with as_nobody():
            refused = folder.read(path)
        path.unlink()

        assert refused.unread is not None
        assert refused.unread.reason == "no_permission"
        missing = folder.read(path)
        assert missing.unread is not None
        assert missing.unread.reason == "file_missing"

    def test_a_folder_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError):
            transfer.check_folder(tmp_path / "nowhere")


@pytest.fixture
async def elsewhere(
    empty_database_url: str, tmp_path: Path, editor: CountingEditor, extractor: TextExtractor
) -> AsyncIterator[Books]:
    """Another house, with a database and a store of its own."""
    providers = {BlobStore: FolderBlobs(tmp_path / "elsewhere"), Extractor: extractor, Editor: editor}
    app = Retoma(empty_database_url, extensions=[BOOKS], providers=providers)
    await app.open(upgrade=True)
    try:
        yield Books(app)
    finally:
        await app.close()


class TestMoving:
    async def test_a_folder_alone_is_enough_to_go_on_elsewhere(
        self, books: Books, app: Retoma, elsewhere: Books, editor: CountingEditor, tmp_path: Path
    ) -> None:
        id = await done(books, app, book_text(4))
        place = tmp_path / "out"
        await transfer.export(books, id, place)
        (place / f"{id}_checkpoint_2.json").unlink()
        broken = place / f"{id}_checkpoint_4.json"
        broken.write_bytes(broken.read_bytes()[:-20])
        editor.summarised.clear()

        (came,) = await transfer.import_folder(elsewhere, place)
        assert (came.session_id, came.new, came.has_input) == (id, True, True)
        assert (came.count("imported"), came.count("invalid")) == (2, 1)
        await elsewhere.resume(id)
        await drain(elsewhere.app)

        session = await elsewhere.get(id)
        assert (session.state, session.done, session.invalid) == ("done", 4, 1)
        assert editor.summarised == ["2", "4"], "the gap and the broken one, and no other"
        before, after = await books.get(id), session
        assert (after.title, after.input_sha256, after.configuration_hash, after.started_at) == (
            before.title,
            before.input_sha256,
            before.configuration_hash,
            before.started_at,
        )

    async def test_an_import_may_be_done_again_and_changes_nothing(
        self, books: Books, app: Retoma, elsewhere: Books, tmp_path: Path
    ) -> None:
        id = await done(books, app)
        await transfer.export(books, id, tmp_path / "out")
        (tmp_path / "out" / f"{id}_checkpoint_3.json").write_bytes(b"{")
        await transfer.import_folder(elsewhere, tmp_path / "out")
        rows = await elsewhere.checkpoints(id)

        (again,) = await transfer.import_folder(elsewhere, tmp_path / "out")

        assert not again.new
        assert (again.count("there"), again.count("invalid")) == (2, 1)
        assert await elsewhere.checkpoints(id) == rows
        assert len([path for path in (tmp_path / "elsewhere" / "files").rglob("*") if path.is_file()]) == 1

    async def test_a_file_whose_name_is_no_text_keeps_no_other_out(self, books: Books, tmp_path: Path) -> None:
        put(tmp_path, original("1"))
        for name in (
            b"%s_checkpoint_\xff.json" % SESSION.encode(),
            b"s\xff_checkpoint_1.json",
            b"s%00_checkpoint_1.json",
        ):
            put(tmp_path, original("1"), os.fsdecode(name))

        came = await transfer.import_folder(books, tmp_path)

        assert [(each.count("imported"), each.count("invalid")) for each in came if each.session_id == SESSION] == [
            (1, 1)
        ]
        kept = [row.reason for each in came for row in await books.checkpoints(each.session_id) if row.reason]
        assert sorted(kept) == ["name_differs", "session_differs", "session_differs"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"title": "\ud800"},
            {"title": None, "timestamp_inicio": "0001-01-01T00:00:00+14:00"},
            {"configuration": {"model": "\ud800"}},
            {"configuration": {"model": "another"}},
            {"configuration": {"model": float("nan")}},
            {"input": {"filename": 5, "kind": "md", "sha256": "0"}},
            {"input": []},
            "[" * 100_000,
        ],
        ids=lambda wrong: next(iter(wrong)) if isinstance(wrong, dict) else "nested",
    )
    async def test_a_note_that_was_damaged_costs_no_chapter(
        self, books: Books, app: Retoma, elsewhere: Books, editor: CountingEditor, tmp_path: Path, wrong: object
    ) -> None:
        id = await done(books, app)
        await transfer.export(books, id, tmp_path / "out")
        (tmp_path / "out" / f"{id}_checkpoint_2.json").unlink()
        note = tmp_path / "out" / f"{id}_session.json"
        said = json.loads(note.read_bytes())
        note.write_text(json.dumps(said | wrong) if isinstance(wrong, dict) else str(wrong))
        editor.summarised.clear()

        (came,) = await transfer.import_folder(elsewhere, tmp_path / "out")
        await elsewhere.resume(id)
        await drain(elsewhere.app)

        assert (came.count("imported"), came.has_input, came.outcome) == (2, True, "resumable")
        assert editor.summarised == ["2"]
        before, after = await books.get(id), await elsewhere.get(id)
        assert (after.state, after.configuration_hash, after.started_at) == (
            "done",
            before.configuration_hash,
            before.started_at,
        )

    async def test_a_folder_of_a_book_of_which_no_chapter_is_done_is_enough_too(
        self, books: Books, elsewhere: Books, editor: CountingEditor, tmp_path: Path
    ) -> None:
        id = (await books.summarise("livro.md", pieces(book_text()))).session.id
        await transfer.export(books, id, tmp_path / "out")
        (tmp_path / "out" / "other_session.json").write_text('{"session_id": "somebody"}')

        (came,) = await transfer.import_folder(elsewhere, tmp_path / "out")
        await elsewhere.resume(id)
        await drain(elsewhere.app)

        assert (came.session_id, came.has_input, came.outcome) == (id, True, "no_checkpoint")
        assert editor.summarised == ["1", "2", "3"]

    async def test_a_session_with_a_long_name_goes_out_and_comes_back(
        self, books: Books, elsewhere: Books, tmp_path: Path
    ) -> None:
        (tmp_path / "in").mkdir()
        long = "s" * 150
        put(tmp_path / "in", original("1", session=long))
        await transfer.import_folder(books, tmp_path / "in")
        await transfer.export(books, long, tmp_path / "out")

        (came,) = await transfer.import_folder(elsewhere, tmp_path / "out")

        assert (came.session_id, came.count("imported")) == (long, 1)

    async def test_files_of_the_original_system_are_taken_over_and_the_book_is_given_later(
        self, books: Books, app: Retoma, editor: CountingEditor, tmp_path: Path
    ) -> None:
        place = tmp_path / "checkpoints"
        place.mkdir()
        for number, words in (("1", 400), ("2", 5000)):
            value = original(number, minute=10 + int(number), done=tuple("1" for _ in range(int(number) - 1)))
            value["chapter_summary"]["palavras"] = words
            put(place, value)

        (came,) = await transfer.import_folder(books, place)
        assert (came.session_id, came.has_input, came.outcome) == (SESSION, False, "resumable")
        session = await books.get(SESSION)
        assert (session.state, session.reason, session.done) == ("paused", "input_missing", 2)
        with pytest.raises(Conflict):
            await books.resume(SESSION)
        await books.attach(SESSION, "livro.md", pieces(book_text()))
        await books.resume(SESSION)
        await drain(app)

        # Chapter 2 of this book has 400 words: what was made from 5,000 is of another text.
        assert editor.summarised == ["2", "3"]
        session = await books.get(SESSION)
        assert (session.state, session.done, session.invalid) == ("done", 3, 1)
        rows = {(row.chapter_number, row.verdict): row.reason for row in await books.checkpoints(SESSION)}
        assert rows["2", "invalid"] == "input_differs"
        with pytest.raises(Conflict):
            await books.attach(SESSION, "other.md", pieces("another book"))

    async def test_files_as_the_original_code_really_wrote_them_are_named_kept_and_their_chapters_done(
        self, books: Books, app: Retoma, editor: CountingEditor, tmp_path: Path
    ) -> None:
        """It left lists empty, and wrote the items themselves where its contract wants their counts."""
        place = tmp_path / "checkpoints"
        place.mkdir()
        put(place, original("1", minute=11) | {"chapter_summary": original()["chapter_summary"] | {"palavras": 400}})
        for number, part, name, wrong in (
            ("2", "chapter_summary", "pontos_chave", []),
            (
                "3",
                "coverage_report",
                "recall_set",
                [{"item_id": "3-a1b2c3", "content": "x", "criticality": "critical"}],
            ),
        ):
            value = original(number, minute=10 + int(number), done=("1",))
            value["chapter_summary"]["palavras"] = 400
            value[part][name] = wrong
            put(place, value)

        (came,) = await transfer.import_folder(books, place)
        await books.attach(SESSION, "livro.md", pieces(book_text()))
        await books.resume(SESSION)
        await drain(app)

        reasons = {each.judged.candidate.name[-6]: each.judged.verdict.reason for each in came.taken}
        assert reasons == {"1": None, "2": "summary_incomplete", "3": "wrong_type"}
        assert editor.summarised == ["2", "3"], "what is valid is used, what is not is done again"
        kept = [
            (row.chapter_number, row.reason) for row in await books.checkpoints(SESSION) if row.verdict == "invalid"
        ]
        assert sorted(kept) == [("2", "summary_incomplete"), ("3", "wrong_type")]

    async def test_a_folder_without_a_valid_checkpoint_says_so_and_all_is_done_from_the_start(
        self, books: Books, app: Retoma, elsewhere: Books, editor: CountingEditor, tmp_path: Path
    ) -> None:
        id = await done(books, app)
        await transfer.export(books, id, tmp_path / "out")
        for path in (tmp_path / "out").glob("*_checkpoint_*"):
            value = json.loads(path.read_bytes())
            value["chapter_summary"]["resumo"] = None
            path.write_bytes(body_of(value))
        editor.summarised.clear()

        (came,) = await transfer.import_folder(elsewhere, tmp_path / "out")
        await elsewhere.resume(id)
        await drain(elsewhere.app)

        assert came.outcome == "none_valid"
        assert {each.judged.verdict.reason for each in came.taken} == {"summary_incomplete"}
        assert editor.summarised == ["1", "2", "3"]

    async def test_an_export_writes_what_the_rows_say_again_and_nothing_that_is_invalid(
        self, books: Books, app: Retoma, tmp_path: Path, psql: object
    ) -> None:
        id = await done(books, app)
        psql.execute("update books.checkpoints set body = '{' where chapter_number = '2'")  # type: ignore[attr-defined]

        exported = await transfer.export(books, id, tmp_path / "a" / "b")

        assert sorted(exported.files) == sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
        assert f"{id}_checkpoint_2.json" not in exported.files
        assert f"{id}_checkpoint_1.json" in exported.files
        (found,) = transfer.check_folder(tmp_path / "a" / "b")
        assert [each.verdict.valid for each in found.judged] == [True, True]

    async def test_an_export_to_where_we_may_not_write_is_said(self, books: Books, app: Retoma, tmp_path: Path) -> None:
        id = await done(books, app)
        await asyncio.to_thread((tmp_path / "file").write_text, "")

        with pytest.raises(ConfigurationError):
            await transfer.export(books, id, tmp_path / "file")

    async def test_the_same_book_under_another_name_is_no_second_session(
        self, books: Books, app: Retoma, tmp_path: Path
    ) -> None:
        id = await done(books, app)
        await transfer.export(books, id, tmp_path / "out")
        await books.remove(id)
        other = await done(books, app)

        with pytest.raises(Conflict, match=other):
            await transfer.import_folder(books, tmp_path / "out")

    async def test_a_folder_without_files_of_the_session_is_said(self, books: Books, tmp_path: Path) -> None:
        with pytest.raises(NotFound):
            await transfer.import_folder(books, tmp_path, "nobody")
        with pytest.raises(NotFound):
            await transfer.import_folder(books, tmp_path)
