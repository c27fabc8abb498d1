"""A part of a file (RFC 9110, section 14): one range of bytes; of several, or of one that cannot be read, the whole."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request

from retoma.web.http.errors import Refusal

_LONGEST = 19  # digits of a place in a file


class Part(NamedTuple):
    """Where a part begins, and how many bytes it has."""

    start: int
    length: int


def part_of(request: Request, *, size: int, tag: str) -> Part | None:
    """The part of a file of *size* bytes that is asked for; None when it is all of it."""
    given = request.headers.get("range")
    only_if = request.headers.get("if-range")
    if given is None or (only_if is not None and only_if.strip() != tag):
        return None
    unit, _, span = given.partition("=")
    first, dash, last = span.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or not _numbers(first, last):
        return None
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size or end <= start:
        raise Refusal("range_not_satisfiable", size=size, headers={"Content-Range": f"bytes */{size}"})
    return Part(start, end - start)


def _numbers(first: str, last: str) -> bool:
    return bool(first or last) and all(
        not each or (each.isascii() and each.isdecimal() and len(each) <= _LONGEST) for each in (first, last)
    )
