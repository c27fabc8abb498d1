"""Reads archives that are documents (DOCX, XLSX, PPTX, ODT, EPUB) without trusting them, and counts while reading."""

from __future__ import annotations

import posixpath
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from retoma.providers.local import limits, markup
from retoma.providers.local.errors import ArchiveLimits, DocumentDamaged, DocumentEncrypted
from retoma.providers.local.listing import ListTooLong, opened

_BLOCK = 65_536
_SEND_AGAIN = "Open it in the program that made it, save it anew, and send it again."


class Archive:
    """A zip file whose members are read, whole, within the limits; nothing is ever written to disk."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._size = max(1, path.stat().st_size)
        self._unpacked = 0
        with ExitStack() as stack:
            try:
                self._zip = stack.enter_context(opened(stack.enter_context(path.open("rb"))))
            except ListTooLong as error:
                raise self._too_much(f"is no document: {error}") from error
            except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
                raise self._damaged(error) from error
            self._check_members()
            self._open = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def __contains__(self, member: str) -> bool:
        return member in self._zip.NameToInfo

    def read(self, member: str) -> bytes:
        """The bytes of *member*."""
        return b"".join(self.blocks(member))

    def blocks(self, member: str) -> Iterator[bytes]:
        """The bytes of *member* block by block, counted."""
        try:
            with self._zip.open(member) as packed:
                while block := packed.read(_BLOCK):
                    self._count(len(block))
                    yield block
        except KeyError as error:
            raise DocumentDamaged(f"{self.name} has no part {member}.", next=_SEND_AGAIN) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise self._damaged(error) from error

    def xml(self, member: str) -> etree._Element:
        """The root element of *member*."""
        return markup.parse(self.read(member), f"{member} of {self.name}")

    def relations(self, member: str) -> dict[str, str]:
        """The parts of this archive that *member* refers to, by id."""
        folder, file = posixpath.split(member)
        if (relations := f"{folder}/_rels/{file}.rels".lstrip("/")) not in self:
            return {}
        return {
            each.get("Id", ""): self.resolve(member, each.get("Target", ""))
            for each in self.xml(relations)
            if each.get("TargetMode") != "External"
        }

    @staticmethod
    def resolve(member: str, target: str) -> str:
        """The member that *target* means when *member* refers to it."""
        return posixpath.normpath(posixpath.join("/", posixpath.dirname(member), target)).lstrip("/")

    def check_markup(self) -> None:
        """Read everything once, block by block and within the limits, before a library reads it without them."""
        for member in self._zip.namelist():
            is_markup = member.endswith((".xml", ".rels", ".vml"))
            end = b""
            for block in self.blocks(member):
                if is_markup:
                    markup.refuse_declarations(end + block, f"{member} of {self.name}")
                    end = block[-markup.LONGEST_DECLARATION :]

    def _check_members(self) -> None:
        members = self._zip.infolist()
        if len(members) > limits.MEMBERS:
            raise self._too_much(f"has {len(members):,} files in it, and {limits.MEMBERS:,} is the limit")
        for each in members:
            if each.filename.startswith(("/", "\\")) or ".." in each.filename.replace("\\", "/").split("/"):
                raise self._too_much(f"holds a file that points out of it: {each.filename[:80]!r}")
            if stat.S_ISLNK(each.external_attr >> 16):
                raise self._too_much(f"holds a symbolic link: {each.filename[:80]!r}")
            if each.flag_bits & 0x1:
                raise DocumentEncrypted(
                    f"{self.name} has a password.", next="Save it without the password and send it again."
                )

    def _count(self, read: int) -> None:
        self._unpacked += read
        if self._unpacked > limits.UNPACKED:
            raise self._too_much(f"unpacks to more than {limits.UNPACKED:,} bytes")
        if self._unpacked > limits.RATIO_FROM and self._unpacked > self._size * limits.RATIO:
            raise self._too_much(f"unpacks to more than {limits.RATIO} times its {self._size:,} bytes")

    def _too_much(self, what: str) -> ArchiveLimits:
        return ArchiveLimits(f"{self.name} {what}.", next="No document needs that; find out where it comes from.")

    def _damaged(self, error: Exception) -> DocumentDamaged:
        return DocumentDamaged(f"{self.name} is a damaged archive: {error}.", next=_SEND_AGAIN)
