"""The list of files in an archive: read only when it is short, whatever the archive says of its length."""

from __future__ import annotations

import zipfile
from io import SEEK_SET
from typing import IO

from retoma.providers.local import limits
from retoma.providers.local.overlaps import refuse_overlaps

_ENTRY = b"PK\x01\x02"
_LONGEST_LIST = 8_000_000  # bytes, for as many files as we allow


class ListTooLong(zipfile.BadZipFile):
    """An archive that lists more files than any document has."""


class _Guarded:
    """A file of which nobody reads more at once than the list of files may have. An archive says in two places how long
    its list is, and the second (ZIP64) hides from who looks at the first; who reads it passes here in any case.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.tell, self.seekable = file.tell, file.seekable

    def seek(self, place: int, whence: int = SEEK_SET) -> int:
        return self._file.seek(place, whence)

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size) if 0 <= size <= _LONGEST_LIST else b""
        if size < 0:  # the end of the archive, which is short
            found = self._file.read(_LONGEST_LIST + 1)
        if max(size, len(found)) > _LONGEST_LIST:
            raise ListTooLong("it lists more files than any document has")
        # Each file of the list begins so; that is counted before anything is made of it.
        if found.startswith(_ENTRY) and found.count(_ENTRY) > limits.MEMBERS:
            raise ListTooLong(f"it lists more than {limits.MEMBERS:,} files")
        return found


def opened(file: IO[bytes]) -> zipfile.ZipFile:
    """The archive in *file*, which stays the caller's to close; raises BadZipFile, or ListTooLong before that costs."""
    archive = zipfile.ZipFile(_Guarded(file))
    refuse_overlaps(archive)
    return archive
