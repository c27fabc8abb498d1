"""What retoma doctor says of limits: how much may come in over HTTP, by which setting, and what is not limited."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retoma.system.settings import Settings

_LIMITS = (
    ("head of a request", "{web_header_bytes:,} bytes", "web_header_bytes"),
    ("headers", "{web_headers} of a request", "web_headers"),
    ("time for a head", "{web_header_seconds:g} s", "web_header_seconds"),
    ("time for a body", "{web_body_seconds:g} s between two pieces", "web_body_seconds"),
    ("keep-alive", "{web_keep_alive_seconds:g} s", "web_keep_alive_seconds"),
    ("connections", "{web_connections:,} of a server process", "web_connections"),
    ("connections", "{web_connections_per_address:,} from one address", "web_connections_per_address"),
    ("streams", "{web_streams_per_key:,} of one key", "web_streams_per_key"),
    ("streams", "{web_streams_per_address:,} from one address", "web_streams_per_address"),
    ("wrong keys", "{web_tries} from one address in a minute", "web_tries"),
    ("JSON", "{web_body_bytes:,} bytes of a request", "web_body_bytes"),
    ("form fields", "{web_form_fields}", "web_form_fields"),
    ("form fields", "{web_form_bytes:,} bytes together", "web_form_bytes"),
    ("files", "{web_upload_files:,} of a request", "web_upload_files"),
    ("files", "{web_upload_bytes:,} bytes of a request", "web_upload_bytes"),
    ("ZIP", "{unpacked_bytes:,} bytes unpacked", "unpacked_bytes"),
)
_QUOTAS = (
    ("key_requests_per_minute", "requests of a key in a minute, in each server process"),
    ("key_bytes_per_day", "bytes of a key in a day"),
    ("key_files_per_day", "files of a key in a day"),
    ("key_jobs_waiting", "jobs of a key that wait"),
)


def limits(settings: Settings) -> Iterator[tuple[str, str]]:
    """A line for each limit: what it is for, and what is allowed by which setting."""
    given = settings.model_dump()
    for what, text, name in _LIMITS:
        yield f"limit: {what}", f"{text.format(**given)} ({_variable(name)})"
    for name, text in _QUOTAS:
        most = given[name]
        told = f"off: no limit on {text}" if most is None else f"{most:,} {text}"
        yield "quota", f"{told} ({_variable(name)})"


def too_few_files(settings: Settings) -> int | None:
    """How many files a process of this account may open, when a server with all its connections needs more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return hard if resource.RLIM_INFINITY != hard < settings.web_files else None


def _variable(name: str) -> str:
    return f"RETOMA_{name.upper()}"
