"""Files that are not taken: each is told why by a code that never changes, and nothing is left of it anywhere."""

import errno
import os
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest

from retoma.bench.evaluation import samples
from retoma.pipelines import DOCUMENTS
from retoma.pipelines.files.ingest import LARGEST
from retoma.providers import BlobStore
from retoma.providers.atomic_files import Part
from retoma.providers.folder import FolderBlobs

from .archive import LEASE, files_in, names, providers, rows, send, sent
from .conftest import House, Open, code

import bad_files  # isort: skip - on the path since archive was imported


@pytest.fixture
def house(open_house: Open, tmp_path: Path) -> House:
    return open_house(extensions=[DOCUMENTS], providers=providers(tmp_path / "blobs"))


@pytest.fixture
def untouched(psql: psycopg.Connection, tmp_path: Path) -> Iterator[None]:
    """Nothing may have been written by the end."""
    yield
    assert rows(psql, "documents", "jobs") == [0, 0]
    assert files_in(tmp_path) == []


BAD: list[tuple[str, str, Callable[[], bytes], int, str]] = [
    ("empty", "a.pdf", bytes, 400, "file_empty"),
    ("a program", "a.pdf", lambda: b"\x7fELF\x02\x01\x01" + bytes(200), 415, "file_type_unsupported"),
    ("an epub", "a.epub", lambda: samples.epub(LEASE), 415, "file_type_unsupported"),
    ("a pdf called docx", "a.docx", bad_files.whole_pdf, 415, "file_type_mismatch"),
    ("a picture called pdf", "a.pdf", bad_files.white_png, 415, "file_type_mismatch"),
    ("a docx with a password", "a.docx", bad_files.locked_docx, 422, "file_encrypted"),
    ("an office file with a password", "a.docx", lambda: bad_files.ole("EncryptedPackage"), 422, "file_encrypted"),
    ("a pdf with a password", "a.pdf", bad_files.locked_pdf, 422, "file_encrypted"),
    ("half a pdf", "a.pdf", lambda: bad_files.cut(bad_files.whole_pdf(), 0.4), 422, "file_truncated"),
    ("half a docx", "a.docx", lambda: bad_files.cut(samples.docx(LEASE), 0.7), 422, "file_truncated"),
    ("half a picture", "a.png", lambda: bad_files.cut(bad_files.white_png(900, 900), 0.6), 422, "file_truncated"),
    ("a bomb", "a.docx", bad_files.bomb_docx, 422, "archive_limits"),
    ("a docx of 10,000 files", "a.docx", bad_files.crowded_docx, 422, "archive_limits"),
    ("a docx that hides its list", "a.docx", bad_files.hidden_list_docx, 422, "archive_limits"),
]


@pytest.mark.usefixtures("untouched")
def test_a_bad_file_is_refused_with_its_code_in_the_callers_language(house: House) -> None:
    for what, name, made, status, wanted in BAD:
        refused = send(house, (name, made()), headers={"Accept-Language": "pt-BR"})

        assert code(refused) == (status, wanted), what
        (fault,) = refused.json()["errors"]
        assert (fault["pointer"], fault["code"]) == (name, wanted)
        assert fault["detail"] == refused.json()["detail"]


@pytest.mark.usefixtures("untouched")
def test_a_file_that_is_too_large_is_refused_with_the_limit(house: House) -> None:
    for language, words in (("en", f"{LARGEST:,} bytes"), ("pt", f"50 MB ({LARGEST} bytes)")):
        refused = send(house, ("a.txt", b"a" * (LARGEST + 1)), headers={"Accept-Language": language})

        assert code(refused) == (413, "file_too_large")
        assert words in refused.json()["detail"]


@pytest.mark.usefixtures("untouched")
def test_what_is_no_form_with_files_is_refused(house: House) -> None:
    def post(content: bytes, kind: str) -> tuple[int, str]:
        return code(house.client.post("/documents", content=content, headers={"Content-Type": kind}))

    form = "multipart/form-data; boundary=x"
    head = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n'
    assert post(b"{}", "application/json") == (415, "multipart_expected")
    assert post(b"x", "multipart/form-data") == (400, "multipart_invalid")
    assert post(head + b"text", form) == (400, "multipart_invalid")
    assert post(b"no part at all", form) == (400, "multipart_invalid")
    assert post(head + b"text\r\n--x\r\nbroken header\r\n\r\n", form) == (400, "multipart_invalid")
    assert post(b"", form) == (400, "multipart_invalid")
    assert post(b'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\nfield\r\n--x--\r\n', form) == (
        400,
        "file_missing",
    )
    assert post(head.replace(b"a.txt", b"") + b"\r\n--x--\r\n", form) == (400, "file_missing")


def test_a_name_never_leads_anywhere_and_never_hides_what_it_is(house: House, tmp_path: Path) -> None:
    bad = {
        "../../etc/passwd.txt": "passwd.txt",
        "..\\..\\windows\\system.txt": "system.txt",
        "C:\\secret\\a.txt": "a.txt",
        "invoice\u202etxt.pdf.txt": "invoicetxt.pdf.txt",
        "a\r\nSet-Cookie: x.txt": None,
        "x" * 600 + ".txt": "x" * 196 + ".txt",
    }
    for number, (name, wanted) in enumerate(bad.items()):
        body = b'--x\r\nContent-Disposition: form-data; name="f"; filename="%b"\r\n\r\n%d\r\n--x--\r\n'
        escaped = name.replace("\r\n", "%0D%0A").replace("\\", "\\\\").encode()
        answer = house.client.post(
            "/documents", content=body % (escaped, number), headers={"Content-Type": "multipart/form-data; boundary=x"}
        )
        assert answer.status_code == 202, answer.text
        (document,) = answer.json()["documents"]
        if wanted is not None:
            assert document["filename"] == wanted
        assert not set(document["filename"]) & set("/\\\r\n\u202e")
    kept = files_in(tmp_path)
    assert len(kept) == len(bad)
    assert all((tmp_path / "blobs") in path.parents for path in kept)


def test_a_caller_who_goes_away_at_the_last_moment_leaves_nothing(
    house: House, psql: psycopg.Connection, tmp_path: Path
) -> None:
    where = urlsplit(house.url)
    head = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n'
    body = head + b"a" * 2_000_000 + b"\r\n--x--\r\n"
    request = (
        f"POST /documents HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((where.hostname, where.port)) as caller:
        caller.sendall(request.encode() + body[: len(body) * 99 // 100])
        caller.shutdown(socket.SHUT_WR)
        while caller.recv(1000):  # until the server has let go as well
            pass
    sent(house)

    assert names(house.client.get("/documents").json()["documents"]) == ["contrato.txt"]
    assert rows(psql, "documents", "jobs", "loose_blobs") == [1, 1, 0]
    assert len(files_in(tmp_path)) == 1


class Unwritable(Part):
    """What the disk does not take, and why."""

    def __init__(self, why: int) -> None:
        super().__init__(Path("nowhere"), inside=Path())
        self._why = why

    def write(self, _: bytes) -> None:
        raise OSError(self._why, os.strerror(self._why))


class Full(FolderBlobs):
    """A folder on a disk that is full."""

    def _part(self) -> Part:
        return Unwritable(errno.ENOSPC)


class Gone(FolderBlobs):
    """A folder on a disk that went away."""

    def _part(self) -> Part:
        return Unwritable(errno.EIO)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("store", "status", "wanted"), [(Full, 507, "store_full"), (Gone, 503, "store_unavailable")])
def test_a_store_that_cannot_take_the_file_leaves_no_row_behind(
    open_house: Open, tmp_path: Path, store: type[FolderBlobs], status: int, wanted: str
) -> None:
    given = providers(tmp_path) | {BlobStore: store(tmp_path / "blobs")}
    house = open_house(extensions=[DOCUMENTS], providers=given)

    refused = send(house, ("contrato.txt", LEASE), ("outro.txt", LEASE + "."))

    assert code(refused) == (status, wanted)
    assert [fault["code"] for fault in refused.json()["errors"]] == [wanted, wanted]
    assert str(tmp_path) not in refused.text
    assert refused.json()["retryable"] == (status == 503)
    assert ("retry-after" in refused.headers) == (status == 503)


def test_a_store_that_lost_a_file_says_so_with_a_code(house: House, tmp_path: Path) -> None:
    id = sent(house)
    for path in files_in(tmp_path):
        path.unlink()

    refused = house.client.get(f"/documents/{id}/file")

    assert code(refused)[0] in (404, 503)
    assert str(tmp_path) not in refused.text


# — how much one request may hold —


def test_the_fields_of_a_form_are_counted_and_summed(house: House) -> None:
    few = house.client.post("/documents", files=[(f"f{n}", (None, "x")) for n in range(100)])
    many = house.client.post("/documents", files=[(f"f{n}", (None, "x")) for n in range(101)])
    large = house.client.post("/documents", files=[(f"f{n}", (None, "x" * 490_000)) for n in range(3)])
    names = house.client.post("/documents", files=[(f"{n}" * 4000, (None, "")) for n in range(10, 100)])

    assert code(few) == (400, "file_missing")
    assert code(many) == (413, "too_many_fields")
    assert "100" in many.json()["detail"]
    assert code(large) == (413, "payload_too_large")
    assert code(names)[0] in (400, 413)


@pytest.mark.usefixtures("untouched")
def test_a_form_without_end_is_not_held(house: House) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\n' + b"x" * 490_000 + b"\r\n"
    sent: list[int] = []

    def parts() -> Iterator[bytes]:
        for number in range(400):
            sent.append(number)
            yield part

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    tracemalloc.start()
    try:
        with suppress(httpx2.TransportError):  # it may be told before it has sent everything
            house.client.post("/documents", content=parts(), headers=headers)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 20_000_000  # of 196 million


def test_files_and_bytes_of_a_request_have_limits_of_ones_own(open_house: Open, tmp_path: Path) -> None:
    house = open_house(
        extensions=[DOCUMENTS], providers=providers(tmp_path / "blobs"), web_upload_files=2, web_upload_bytes=100_000
    )

    files = send(house, *[(f"{n}.txt", f"{LEASE} {n}") for n in range(3)])
    bytes_ = send(house, ("a.txt", LEASE), ("b.txt", "x " * 60_000))

    assert code(files) == (413, "too_many_files")
    assert files.headers["ratelimit-policy"].startswith('"too_many_files";q=')
    assert code(bytes_) == (413, "payload_too_large")
    assert {each["filename"] for each in house.client.get("/documents").json()["documents"]} <= {
        "0.txt",
        "1.txt",
        "a.txt",
    }
