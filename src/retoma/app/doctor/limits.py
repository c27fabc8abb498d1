"""What the doctor says of limits: how much may come in over HTTP, by which setting, and what is not limited."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

from retoma.values.phrase import Phrase

if TYPE_CHECKING:
    from retoma.system.settings import Settings

_LIMITS = (
    (Phrase("head of a request"), Phrase("{most:,} bytes"), "web_header_bytes"),
    (Phrase("headers"), Phrase("{most} of a request"), "web_headers"),
    (Phrase("time for a head"), Phrase("{most:g} s"), "web_header_seconds"),
    (Phrase("time for a body"), Phrase("{most:g} s between two pieces"), "web_body_seconds"),
    (Phrase("keep-alive"), Phrase("{most:g} s"), "web_keep_alive_seconds"),
    (Phrase("connections"), Phrase("{most:,} of a server process"), "web_connections"),
    (Phrase("connections"), Phrase("{most:,} from one address"), "web_connections_per_address"),
    (Phrase("streams"), Phrase("{most:,} of one key"), "web_streams_per_key"),
    (Phrase("streams"), Phrase("{most:,} from one address"), "web_streams_per_address"),
    (Phrase("wrong keys"), Phrase("{most} from one address in a minute"), "web_tries"),
    (Phrase("JSON"), Phrase("{most:,} bytes of a request"), "web_body_bytes"),
    (Phrase("form fields"), Phrase("{most}"), "web_form_fields"),
    (Phrase("form fields"), Phrase("{most:,} bytes together"), "web_form_bytes"),
    (Phrase("files"), Phrase("{most:,} of a request"), "web_upload_files"),
    (Phrase("files"), Phrase("{most:,} bytes of a request"), "web_upload_bytes"),
    (Phrase("ZIP"), Phrase("{most:,} bytes unpacked"), "unpacked_bytes"),
)
_QUOTAS = (
    ("key_requests_per_minute", Phrase("requests of a key in a minute, in each server process")),
    ("key_bytes_per_day", Phrase("bytes of a key in a day")),
    ("key_files_per_day", Phrase("files of a key in a day")),
    ("key_jobs_waiting", Phrase("jobs of a key that wait")),
)


def limits(settings: Settings) -> Iterator[tuple[Phrase, Phrase]]:
    """A line for each limit: what it is for, and what is allowed by which setting."""
    for what, text, name in _LIMITS:
        allowed = Phrase(text, most=getattr(settings, name))
        yield (
            Phrase("limit: {what}", what=what),
            Phrase("{allowed} ({name})", allowed=allowed, name=_variable(name)),
        )
    for name, text in _QUOTAS:
        most = getattr(settings, name)
        told = Phrase("off: no limit on {what}" if most is None else "{most:,} {what}", most=most, what=text)
        yield Phrase("quota"), Phrase("{allowed} ({name})", allowed=told, name=_variable(name))


def too_few_files(settings: Settings) -> int | None:
    """How many files a process of this account may open, when a server with all its connections needs more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return hard if resource.RLIM_INFINITY != hard < settings.web_files else None


def _variable(name: str) -> str:
    return f"RETOMA_{name.upper()}"
