"""Files that people send: taken piece by piece, refused with a reason, and never lost between the store and a row."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import sys
import tracemalloc
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

import bad_files

from retoma import Retoma
from retoma.bench.evaluation import samples
from retoma.pipelines.files import content, ingest
from retoma.pipelines.files.ingest import FileRefused, Files, StoreDown, StoreFull
from retoma.providers import Blob, BlobStore, ProviderDown
from retoma.providers.folder import FolderBlobs

KINDS = ("pdf", "docx", "xlsx", "pptx", "html", "csv", "txt", "png", "jpg", "tiff")
DAY = timedelta(days=1)


async def pieces(content: bytes, *, size: int = 1000, error: Exception | None = None) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]
    if error:
        raise error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
async def app(database_url: str, folder: Path) -> AsyncIterator[Retoma]:
    async with Retoma(database_url, providers={BlobStore: FolderBlobs(folder)}) as app:
        yield app


@pytest.fixture
def taken(app: Retoma) -> Files:
    return Files(app)


def stored(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def loose(psql: psycopg.Connection) -> list[str]:
    return [blob for (blob,) in psql.execute("select blob from retoma.loose_blobs")]


def test_a_list_of_files_that_is_too_long_is_not_read_to_find_that_out() -> None:
    whole = io.BytesIO(bad_files.hidden_list_docx())
    tracemalloc.start()
    try:
        with pytest.raises(FileRefused) as refused:
            content.kind_of(whole, "a.docx", KINDS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert refused.value.code == "archive_limits"
    assert peak < 4_000_000  # the list alone has 12 million bytes


def test_an_archive_with_a_zip64_record_that_is_true_is_read() -> None:
    assert content.kind_of(io.BytesIO(bad_files.zip64_docx()), "a.docx", KINDS) == "docx"


class TestTake:
    async def test_a_file_is_kept_with_its_size_hash_and_kind_and_waits_for_its_owner(
        self, taken: Files, folder: Path, psql: psycopg.Connection
    ) -> None:
        whole = samples.pdf("Contrato de locação. " * 500)

        file = await taken.take("contrato.pdf", pieces(whole), kinds=KINDS)

        assert (file.kind, file.mime_type, file.size) == ("pdf", "application/pdf", len(whole))
        assert file.sha256 == hashlib.sha256(whole).hexdigest()
        assert [path.read_bytes() for path in stored(folder)] == [whole]
        assert loose(psql) == [file.blob]
        async with taken.local(file.blob, file.kind) as path:
            assert path.read_bytes() == whole

    @pytest.mark.parametrize(
        ("name", "make", "code"),
        [
            ("vazio.pdf", lambda: b"", "file_empty"),
            ("grande.txt", lambda: b"a" * 20_001, "file_too_large"),
            ("programa.exe", lambda: b"MZ" + bytes(100), "file_type_unsupported"),
            ("ruido.pdf", lambda: bad_files.noise(4096, 1), "file_type_unsupported"),
            ("livro.epub", lambda: samples.epub("Um livro."), "file_type_unsupported"),
            ("desenho.svg", lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
            ("contrato.pdf", bad_files.white_png, "file_type_mismatch"),
            ("foto.png", lambda: samples.pdf("Texto."), "file_type_mismatch"),
            ("carta.docx", lambda: bad_files.ole("EncryptedPackage"), "file_encrypted"),
            ("carta.docx", bad_files.locked_docx, "file_encrypted"),
            ("carta.docx", lambda: bad_files.cut(samples.docx("Uma carta. " * 99), 0.7), "file_truncated"),
            ("foto.png", lambda: bad_files.cut(bad_files.white_png(2000, 2000), 0.6), "file_truncated"),
            ("bomba.docx", bad_files.bomb_docx, "archive_limits"),
            ("cheio.docx", bad_files.crowded_docx, "archive_limits"),
            ("oculto.docx", bad_files.hidden_list_docx, "archive_limits"),
        ],
    )
    async def test_a_bad_file_is_refused_by_its_code_and_leaves_nothing(
        self, taken: Files, folder: Path, psql: psycopg.Connection, name: str, make, code: str | None
    ) -> None:
        most = 20_000 if name == "grande.txt" else ingest.LARGEST
        if code is None:  # a text, whatever it is called
            assert (await taken.take(name, pieces(make()), kinds=KINDS)).kind in ("html", "txt")
            return

        with pytest.raises(FileRefused) as refused:
            await taken.take(name, pieces(make(), size=65_536), kinds=KINDS, most=most)

        assert refused.value.code == code
        assert name in refused.value.message
        assert refused.value.limit == (20_000 if code == "file_too_large" else None)
        assert (stored(folder), loose(psql)) == ([], [])

    async def test_texts_may_be_called_by_each_other_s_names(self, taken: Files) -> None:
        table = b"a;b\n1;2\n3;4\n"

        assert (await taken.take("notas.txt", pieces(table), kinds=KINDS)).kind == "csv"

    async def test_a_sender_who_goes_away_at_the_end_leaves_nothing(
        self, taken: Files, folder: Path, psql: psycopg.Connection
    ) -> None:
        whole = samples.pdf("Quase tudo. " * 999)

        with pytest.raises(ConnectionResetError):
            await taken.take("a.pdf", pieces(whole, error=ConnectionResetError()), kinds=KINDS)

        assert (stored(folder), loose(psql)) == ([], [])

    async def test_a_large_file_is_never_whole_in_memory(self, taken: Files) -> None:
        async def long() -> AsyncIterator[bytes]:
            yield b"texto "
            for _ in range(400):
                yield b"palavra " * 8192

        tracemalloc.start()
        file = await taken.take("longo.txt", long(), kinds=KINDS)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert file.size > 26_000_000
        assert peak < 12_000_000

    async def test_a_full_disk_is_said_to_be_full_wherever_it_is_full(
        self, taken: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("retoma.providers.atomic_files.Part.write", full)
            with pytest.raises(StoreFull, match="No space left"):
                await taken.take("a.txt", pieces(b"um texto"), kinds=KINDS)
        with monkeypatch.context() as patch:
            # What is short is never written there.
            patch.setattr("tempfile.TemporaryFile", lambda: Path("/dev/full").open("r+b", buffering=0))  # noqa: SIM115
            with pytest.raises(StoreFull, match="No space left"):
                await taken.take("a.txt", pieces(b"um texto " * 100_000), kinds=KINDS)

    async def test_a_store_that_does_not_answer_leaves_a_loose_row_that_is_swept(
        self, taken: Files, psql: psycopg.Connection
    ) -> None:
        class Down(FolderBlobs):
            async def put(self, *_: object, **__: object) -> Blob:
                raise ProviderDown("Nobody answers.", provider="folder", paid=False)

        real = taken.blobs
        await real.put("something", pieces(b"that is kept"))
        taken.blobs = Down(Path("/nowhere"))

        with pytest.raises(StoreDown, match="Nobody answers"):
            await taken.take("a.txt", pieces(b"um texto"), kinds=KINDS)

        assert len(loose(psql)) == 1
        psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")
        assert await taken.sweep(DAY) == 0, "of a store that cannot be reached nobody knows"
        taken.blobs = real
        assert await taken.sweep(DAY) == 1
        assert loose(psql) == []


class TestLocal:
    async def test_a_blob_that_is_elsewhere_is_a_copy_for_as_long_as_it_is_needed(self, taken: Files) -> None:
        class Elsewhere:
            """A store whose files cannot be opened by a path."""

            def __init__(self, inner: FolderBlobs) -> None:
                self.put, self.open, self.delete, self.exists = inner.put, inner.open, inner.delete, inner.exists

        file = await taken.take("a.txt", pieces(b"um texto"), kinds=KINDS)
        inside = FolderBlobs.path(taken.blobs, file.blob)  # type: ignore[arg-type]
        taken.blobs = Elsewhere(taken.blobs)  # type: ignore[arg-type]

        async with taken.local(file.blob, file.kind) as path:
            assert (path.read_bytes(), path.suffix) == (b"um texto", ".txt")
            assert path != inside

        assert not path.exists()
        assert inside.exists()


class TestNames:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ("contrato.pdf", "contrato.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\ana\\contrato final.pdf", "contrato final.pdf"),
            ("fatura\u202efdp.exe", "faturafdp.exe"),
            ("a\0b\r\nc\x1b[31m.pdf", "abc[31m.pdf"),
            ("", "documento"),
            ("...", "documento"),
            ("/", "documento"),
            ("a\u2028b.pdf", "a b.pdf"),
            ("lone\ud800.pdf", "lone\ufffd.pdf"),
            ("cafe\u0301.pdf", "café.pdf"),
        ],
    )
    def test_a_name_is_for_people_only(self, given: str, kept: str) -> None:
        assert content.clean_name(given) == kept

    def test_a_long_name_keeps_its_ending(self) -> None:
        kept = content.clean_name("ã" * 5000 + ".pdf")

        assert len(kept) == 200
        assert kept.endswith(".pdf")

    async def test_the_blob_has_a_name_of_ours(self, taken: Files) -> None:
        file = await taken.take("../../contrato.txt", pieces(b"um texto"), kinds=KINDS)

        assert "contrato" not in file.blob
        assert file.filename == "contrato.txt"


class TestSweep:
    async def test_only_what_nobody_owned_for_so_long_is_swept(
        self, app: Retoma, taken: Files, folder: Path, psql: psycopg.Connection
    ) -> None:
        owned, young, old = [
            await taken.take(f"{name}.txt", pieces(name.encode()), kinds=KINDS) for name in ("dono", "novo", "velho")
        ]
        assert await app.fetch(taken.keep(owned)) == [owned.blob]
        psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours' where blob = %s", [old.blob])

        assert await taken.sweep(DAY) == 1

        assert {path.read_bytes() for path in stored(folder)} == {b"dono", b"novo"}
        assert loose(psql) == [young.blob]

    async def test_what_was_given_up_can_have_no_owner_any_more(self, app: Retoma, taken: Files) -> None:
        file = await taken.take("a.txt", pieces(b"um texto"), kinds=KINDS)
        await app.fetch(taken.release(file.blob))  # as a sweep does that was killed before it deleted

        assert await app.fetch(taken.keep(file)) == []

    async def test_whoever_is_first_decides_and_the_other_sees_it(
        self, app: Retoma, taken: Files, psql: psycopg.Connection
    ) -> None:
        file = await taken.take("a.txt", pieces(b"um texto"), kinds=KINDS)
        psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")

        async with app.transaction() as connection:
            kept = await connection.execute(taken.keep(file).sql, taken.keep(file).params)
            assert await kept.fetchall() == [(file.blob,)]
            # The owner's transaction is not over: the sweep must leave this one alone, and must not wait for it.
            assert await asyncio.wait_for(taken.sweep(DAY), 10) == 0

        assert await taken.blobs.exists(file.blob)

    async def test_a_kill_between_deleting_and_forgetting_is_finished_by_the_next_sweep(
        self, app: Retoma, taken: Files, psql: psycopg.Connection
    ) -> None:
        file = await taken.take("a.txt", pieces(b"um texto"), kinds=KINDS)
        await app.fetch(taken.release(file.blob))
        await taken.blobs.delete(file.blob)
        psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")

        assert await taken.sweep(DAY) == 1
        assert loose(psql) == []

    async def test_what_is_dropped_is_gone_from_store_and_table(
        self, taken: Files, folder: Path, psql: psycopg.Connection
    ) -> None:
        file = await taken.take("a.txt", pieces(b"um texto"), kinds=KINDS)

        await taken.drop(file.blob)

        assert (stored(folder), loose(psql)) == ([], [])
