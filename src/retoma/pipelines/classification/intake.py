"""Files on their way into a project: one by one, from a folder, or out of a ZIP. Each is taken, known, or refused by
itself; one bad file does not cost the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import stat
import tempfile
import zipfile
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO

from retoma.app.access.audit import Entry, as_noted, tell
from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, NotFound
from retoma.pipelines.classification import documents, projects
from retoma.pipelines.classification.model import Added, Intake, Refused
from retoma.pipelines.files.content import FileRefused, clean_name
from retoma.pipelines.files.ingest import LARGEST, File, Files
from retoma.providers.local import limits
from retoma.providers.local.kinds import KINDS
from retoma.providers.local.listing import ListTooLong, opened

MOST_FILES = 2000
LARGEST_ZIP = 1_000_000_000
"""Bytes of a ZIP as it is sent; each file in it may have as many as any other file."""
_PIECE = 1 << 18
_AT_ONCE = 4
_LEFT_OUT = ("__MACOSX/", ".DS_Store", "Thumbs.db", "desktop.ini")
_TROUBLES = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)

Told = Callable[[int, int], None]
"""Called with how many files were looked at, and of how many."""


class Intaking:
    """Takes files into the projects of an app."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._files = Files(app)

    async def add(
        self,
        project_id: int,
        filename: str,
        content: AsyncIterable[bytes],
        *,
        code: str | None = None,
        source: str,
        entry: Entry | None = None,
    ) -> Added:
        """Take one file; raises FileRefused, StoreFull or StoreDown. The same content again is not kept twice. What is
        new commits together with its *entry* in the audit.
        """
        file = await self._files.take(filename, content, kinds=KINDS, most=LARGEST)
        try:
            async with self._app.transaction() as conn:
                await _hold(conn, project_id)
                query = documents.add(
                    project_id,
                    file.filename,
                    code=code,
                    kind=file.kind,
                    sha=file.sha256,
                    size=file.size,
                    blob=file.blob,
                    source=source,
                )
                (found,) = await fetch(conn, query)
                stored = await fetch(conn, documents.one(found.id))
                kept = stored[0].blob == file.blob
                if kept and not await fetch(conn, self._files.keep(file)):
                    raise ConfigurationError(f"{filename} took longer than a day to arrive.", next="Send it again.")
                entry = _entry(entry, found, file) if found.new else None
                if entry is not None:
                    await self._app.audit.write(entry, conn=conn)
        except NotFound:
            await self._files.drop(file.blob)
            raise
        # After any other error nobody knows whether the row is there; a blob without one is swept away later.
        if not kept:
            await self._files.drop(file.blob)
        if entry is not None:
            tell(entry)
        return found

    async def receive(
        self, project_id: int, filename: str, content: AsyncIterable[bytes], into: Intake, *, source: str = "upload"
    ) -> None:
        """Take a file, or every file of a ZIP, and write down what became of each."""
        if PurePosixPath(filename.replace("\\", "/")).suffix.lower() == ".zip":
            await self._unpack(project_id, filename, content, into, source=source)
        else:
            await self._try(project_id, filename, content, into, source=source)

    async def _try(
        self,
        project_id: int,
        filename: str,
        content: AsyncIterable[bytes],
        into: Intake,
        *,
        source: str,
        code: str | None = None,
    ) -> None:
        if len(into.added) + len(into.known) >= MOST_FILES:
            into.refused.append(Refused(filename, "too_many_files", f"At most {MOST_FILES:,} files are taken at once."))
            return
        try:
            added = await self.add(project_id, filename, content, code=code, source=source, entry=into.entry)
        except FileRefused as error:
            into.refused.append(Refused(clean_name(filename), error.code, str(error)))
            return
        if added.new:
            into.added.append(added)
        else:
            into.known.append((clean_name(filename), added))

    # — a folder —

    async def folder(
        self, project_id: int, folder: Path, *, told: Told | None = None, entry: Entry | None = None
    ) -> Intake:
        """Take every file under *folder*; what the project has already is not read again into the store. The content
        is kept, so that a folder that is moved or changed later breaks nothing.
        """
        files = await asyncio.to_thread(_files_of, folder)
        if len(files) > 10 * MOST_FILES:
            raise ConfigurationError(
                f"{folder} has {len(files):,} files, and at most {10 * MOST_FILES:,} are taken at once.",
                next="Name a folder below it.",
            )
        into, known = Intake(entry=entry), await self._known(project_id)
        room, looked = asyncio.Semaphore(_AT_ONCE), 0

        async def one(path: Path, sha: str) -> None:
            nonlocal looked
            async with room:
                await self._from_folder(project_id, folder, path, sha, known, into)
            looked += 1
            if told is not None:
                told(looked, len(files))

        hashed = [(path, await asyncio.to_thread(_sha_of, path)) for path in files]
        first = {sha: path for path, sha in reversed(hashed)}
        # Of equal files the first by name is the document, whoever is quicker.
        for now in (True, False):
            async with asyncio.TaskGroup() as group:
                for path, sha in hashed:
                    if (first[sha] == path) is now:
                        group.create_task(one(path, sha))
        return into

    async def _known(self, project_id: int) -> dict[str, Added]:
        known, after = {}, 0
        while page := await self._app.fetch(documents.page(project_id, after=after)):
            after = page[-1].id
            known.update({each.sha256: Added(each.id, each.code, new=False) for each in page if each.sha256})
        return known

    async def _from_folder(
        self, project_id: int, folder: Path, path: Path, sha: str, known: dict[str, Added], into: Intake
    ) -> None:
        name = path.relative_to(folder).as_posix()
        if found := known.get(sha):
            into.known.append((name, found))
            return
        try:
            code = name[-documents.LONGEST_CODE :]
            added = await self.add(project_id, path.name, _pieces(path), code=code, source="folder", entry=into.entry)
        except FileRefused as error:
            into.refused.append(Refused(name, error.code, str(error)))
        except OSError as error:
            why = f"{name} cannot be read: {error.strerror or error}."
            into.refused.append(Refused(name, "document_missing", why))
        else:
            known[sha] = added
            (into.added.append(added) if added.new else into.known.append((name, added)))

    # — a ZIP —

    async def _unpack(
        self, project_id: int, filename: str, content: AsyncIterable[bytes], into: Intake, *, source: str
    ) -> None:
        with tempfile.TemporaryFile() as spool:
            size = 0
            async for piece in content:
                size += len(piece)
                if size > LARGEST_ZIP:
                    why = f"{filename} is larger than the {LARGEST_ZIP:,} bytes that a ZIP may have."
                    into.refused.append(Refused(filename, "file_too_large", why))
                    return
                await asyncio.to_thread(spool.write, piece)
            try:
                archive = await asyncio.to_thread(_opened, spool)
            except ListTooLong:
                why = f"{filename} lists more files than we unpack."
                into.refused.append(Refused(filename, "archive_limits", why))
                return
            except _TROUBLES as error:
                into.refused.append(Refused(filename, "archive_damaged", f"{filename} is not a whole ZIP: {error}."))
                return
            with archive:
                members = [each for each in archive.infolist() if not each.is_dir() and not _left_out(each)]
                if much := _too_much(filename, members, size, self._app.settings.unpacked_bytes):
                    into.refused.append(Refused(filename, "archive_limits", much))
                    return
                if into.pay is not None:
                    await into.pay(sum(each.file_size for each in members), len(members))
                for member in members:
                    await self._member(project_id, archive, member, into, source=source)

    async def _member(
        self, project_id: int, archive: zipfile.ZipFile, member: zipfile.ZipInfo, into: Intake, *, source: str
    ) -> None:
        name = member.filename
        if refused := _refusal(member):
            into.refused.append(Refused(name, *refused))
            return
        try:
            await self._try(project_id, name, _unpacked(archive, member), into, source=source)
        except _TROUBLES as error:
            into.refused.append(Refused(name, "archive_damaged", f"{name} cannot be unpacked: {error}."))


def _entry(entry: Entry | None, document: Added, file: File) -> Entry | None:
    """*entry*, which says what came into the project."""
    stands = {"document": document.id, "size": file.size, "sha256": file.sha256}
    return entry and replace(entry, after=as_noted(stands))


async def _hold(conn: object, project_id: int) -> None:
    if not await fetch(conn, projects.hold(project_id)):
        raise NotFound(f"There is no project {project_id}.")


async def pieces_of(content: bytes) -> AsyncIterator[bytes]:
    """What is at hand already, as it would come over the wire."""
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]


def _files_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder.", next="Name the folder that holds the documents.")
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _sha_of(path: Path) -> str:
    """What is in it; of one that cannot be read, its own name, which nothing else has."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return str(path)


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _opened(spool: IO[bytes]) -> zipfile.ZipFile:
    """The archive, unless its list of files alone is more than anybody needs."""
    spool.flush()
    return opened(spool)


def _left_out(member: zipfile.ZipInfo) -> bool:
    return any(part in member.filename for part in _LEFT_OUT)


def _too_much(filename: str, members: list[zipfile.ZipInfo], packed: int, most: int) -> str | None:
    """Why a ZIP is not unpacked at all: what would be taken of it is far more than it has itself. No file unpacks to
    more than it says here; what is refused by itself is not counted.
    """
    unpacked = sum(each.file_size for each in members if _refusal(each) is None)
    if unpacked > most:
        return f"{filename} unpacks to {unpacked:,} bytes, and {most:,} are allowed. Send it in parts."
    if unpacked > limits.RATIO_FROM and unpacked > limits.RATIO * packed:
        return f"{filename} unpacks to more than {limits.RATIO} times its {packed:,} bytes; no documents do."
    return None


def _refusal(member: zipfile.ZipInfo) -> tuple[str, str] | None:  # noqa: PLR0911 - one question after the other
    """Why a file in a ZIP is not unpacked: its code, and the sentence."""
    name = member.filename
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        return "archive_traversal", f"{name} points out of the ZIP."
    if stat.S_ISLNK(member.external_attr >> 16):
        return "archive_link", f"{name} is a link, not a file."
    if member.flag_bits & 0x1:
        return "file_encrypted", f"{name} has a password. Unpack it, and send what is in it."
    if parts[-1].lower().endswith((".zip", ".rar", ".7z", ".gz", ".tar")):
        return "archive_nested", f"{name} is an archive inside the ZIP. Unpack it, and send what is in it."
    if member.file_size > LARGEST:
        return "file_too_large", f"{name} unpacks to {member.file_size:,} bytes, and {LARGEST:,} are allowed."
    if member.file_size > limits.RATIO_FROM and member.file_size > limits.RATIO * max(1, member.compress_size):
        return "archive_limits", f"{name} unpacks to more than {limits.RATIO} times its size; no document does."
    return None


async def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> AsyncIterator[bytes]:
    """Its bytes as they are unpacked: who lies about their number is found out by whoever counts them."""
    with await asyncio.to_thread(archive.open, member) as packed:
        while piece := await asyncio.to_thread(packed.read, _PIECE):
            yield piece
