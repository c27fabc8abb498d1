"""The protocol between parent and child: messages of a known kind and length.

The parent trusts nothing that it reads. A message that is longer than its kind allows, or of an unknown kind, ends the
child and fails its one call.
"""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Iterator
from contextlib import suppress

LETTER, CALL, ARGUMENTS = b"l", b"c", b"p"
"""From the parent: the configuration, the function and its time, the arguments."""
READY, BEGUN, NOTE, VALUE, REPLY = b"r", b"b", b"n", b"v", b"a"
"""From the child: sandboxed, function started, position, return value, ending."""

NOTE_BYTES = 1_024
REPLY_BYTES = 262_144
NOTES = 100_000
"""How many notes one call may send; a document has at most some thousand pages."""

_HEAD = struct.Struct("!cI")
_CHUNK = 1_048_576
_LONGEST = {READY: 8_192, BEGUN: 64, NOTE: NOTE_BYTES, REPLY: REPLY_BYTES}


class Garbled(Exception):
    """A child sent something that is not part of the protocol."""


def piece(kind: bytes, body: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(body)) + body


def send(descriptor: int, kind: bytes, body: bytes = b"") -> None:
    """In the child: send a message, and wait until it is written."""
    left = memoryview(piece(kind, body))
    while left:
        left = left[os.write(descriptor, left) :]


def receive(descriptor: int) -> tuple[bytes, bytes] | None:
    """In the child: the next message, or None when the parent has closed the pipe."""
    head = _exactly(descriptor, _HEAD.size)
    if head is None:
        return None
    kind, length = _HEAD.unpack(head)
    body = _exactly(descriptor, length)
    return None if body is None else (kind, body)


def _exactly(descriptor: int, length: int) -> bytes | None:
    found = bytearray()
    while len(found) < length:
        more = os.read(descriptor, min(_CHUNK, length - len(found)))
        if not more:
            return None
        found += more
    return bytes(found)


class Line:
    """The parent's end. It never waits for the child longer than it is told to."""

    def __init__(self, reads: int, writes: int, *, most: int) -> None:
        """A value may have *most* bytes."""
        self._reads, self._writes = reads, writes
        self._longest = {**_LONGEST, VALUE: most}
        self._came = bytearray()
        self._unsent: list[memoryview] = []
        self._closed = False
        for each in (reads, writes):
            os.set_blocking(each, False)

    def say(self, kind: bytes, body: bytes) -> None:
        """Queue a message; it is sent while *hear* waits."""
        self._unsent += [memoryview(_HEAD.pack(kind, len(body))), memoryview(body)]

    def hear(self, seconds: float) -> Iterator[tuple[bytes, bytes]]:
        """The messages that arrive within *seconds*, as soon as there is one. Raises EOFError when no more can come,
        and Garbled when the data is invalid.
        """
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        if self._unsent:
            poll.register(self._writes, select.POLLOUT)
        ready = dict(poll.poll(seconds * 1_000))
        if self._writes in ready:
            self._send()
        if self._reads in ready:
            with suppress(BlockingIOError):
                more = os.read(self._reads, _CHUNK)
                if not more:
                    raise EOFError
                self._came += more
        return self._pieces()

    @property
    def is_idle(self) -> bool:
        """Whether no unexpected data has arrived."""
        with suppress(BlockingIOError):
            self._came += os.read(self._reads, 1)
        return not self._came and not self._unsent

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._reads)
            os.close(self._writes)

    def _send(self) -> None:
        try:
            while self._unsent:
                sent = os.write(self._writes, self._unsent[0])
                self._unsent[0] = self._unsent[0][sent:]
                if self._unsent[0]:
                    return
                self._unsent.pop(0)
        except BlockingIOError:
            return
        except BrokenPipeError:  # the child has ended; *hear* reports that
            self._unsent.clear()

    def _pieces(self) -> Iterator[tuple[bytes, bytes]]:
        while len(self._came) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._came)
            longest = self._longest.get(kind)
            if longest is None:
                raise Garbled(f"a piece of the unknown kind {kind!r}")
            if length > longest:
                raise Garbled(f"{length:,} bytes, where at most {longest:,} may come")
            if len(self._came) < _HEAD.size + length:
                return
            body = bytes(memoryview(self._came)[_HEAD.size : _HEAD.size + length])
            del self._came[: _HEAD.size + length]
            yield kind, body
