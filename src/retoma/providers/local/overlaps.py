"""Detects files in an archive that share their bytes: the oldest way to make a small archive unpack to a large one."""

from __future__ import annotations

import zipfile
from itertools import pairwise

_HEADER = 30  # bytes before every file, at least


def refuse_overlaps(archive: zipfile.ZipFile) -> None:
    """Raise BadZipFile when one file of *archive* begins before another has ended, or reaches into
    the central directory.

    Python checks that only from 3.11.8 and 3.12.2 on.
    """
    members = sorted(archive.infolist(), key=lambda each: each.header_offset)
    starts = [*(each.header_offset for each in members), archive.start_dir]
    for member, (start, following) in zip(members, pairwise(starts), strict=True):
        if start + _HEADER + member.compress_size > following:
            raise zipfile.BadZipFile(f"{member.filename!r} shares its bytes with another file")
