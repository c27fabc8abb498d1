"""Takes secrets out of what is written to a log, whoever put them there: passwords in URLs, keys, tokens.

The engine puts none there. But the message of an exception may quote a connection string or a header, and other
libraries write what they like.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

GONE = "[redacted]"
_SHORTEST = 8  # characters of a secret that is known by its value; a shorter one would be found in other words
_NAMES = "password|passwd|passphrase|pwd|secret|client_secret|token|access_token|refresh_token|api[_-]?key|apikey"
_IS = r"[\"']?\s{0,3}[=:]\s{0,3}[\"']?"
_FIELDS = re.compile(
    r"password|passwd|secret|token|api_?key|authorization|cookie|dsn|database_url|prompt|payload", re.IGNORECASE
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A URL with a password: postgresql://user:password@host
    (re.compile(r"(://[^\s:/@]{0,100}:)[^\s@]{1,200}@"), rf"\1{GONE}@"),
    (re.compile(r"\b(bearer\s{1,3})[A-Za-z0-9._~+/=-]{6,500}", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(rf"\b(authorization{_IS}basic\s{{1,3}})[^\s\"',;]{{1,500}}", re.IGNORECASE), rf"\1{GONE}"),
    # password=…, "api_key": "…", X-Api-Key: …
    (re.compile(rf"((?:\b|_|-)(?:{_NAMES}){_IS})(?!\[redacted)[^\s\"',;&}})]{{1,500}}", re.IGNORECASE), rf"\1{GONE}"),
    # Secrets that can be told by their shape: ours, and those of well-known services.
    (re.compile(r"\brt[a-z]_[A-Za-z0-9_-]{20,200}"), GONE),
    (re.compile(r"\b(?:sk|pk|rk|glpat)-[A-Za-z0-9_-]{16,200}"), GONE),
    (re.compile(r"\b(?:gh[oprsu]_|xox[abprs]-|github_pat_)[A-Za-z0-9_-]{10,200}"), GONE),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}"), GONE),
    (re.compile(r"\bAIza[0-9A-Za-z_-]{30,60}"), GONE),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,300}\.[A-Za-z0-9_-]{8,1000}\.[A-Za-z0-9_-]{0,600}"), GONE),
)  # fmt: skip
_SIGNS = (
    "://", "bearer", "authorization", "passw", "passphrase", "pwd", "secret", "token", "key", "rtm_", "rtl_", "rts_",
    "sk-", "pk-", "rk-", "glpat-", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "xox", "akia", "asia", "aiza",
    "eyj", "cookie", "dsn", "prompt", "payload",
)  # fmt: skip
_OURS = frozenset({"jobType", "queue", "status", "ending", "traceId", "workerLabel", "model", "operation", "kind"})
"""Fields whose values are names that a program gives: nobody calls a pipeline by a secret."""
_ID = re.compile(r"[0-9a-f-]{1,64}")
_NUMBERS = frozenset({int, float, bool})
_known: set[str] = set()


def hide(*secrets: str | None) -> None:
    """Never write these to a log, whatever stands around them."""
    _known.update(each for each in secrets if each and len(each) >= _SHORTEST)


def hide_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Never write the keys, tokens and passwords of the environment."""
    ends = ("_KEY", "_SECRET", "_TOKEN", "_PASSWORD", "PGPASSWORD")
    hide(*(value for name, value in environment.items() if name.upper().endswith(ends)))


def suspicious(fields: Mapping[str, Any]) -> bool:
    """Whether the fields of a line may hold a secret: a cheap look, so that most lines cost nothing more."""
    for name, value in fields.items():
        if type(value) in _NUMBERS or name in _OURS:
            continue
        text = value if isinstance(value, str) else str(value)
        if len(text) < _SHORTEST and not _FIELDS.fullmatch(name):
            continue
        low = f"{name} {text}".lower()
        for sign in _SIGNS:
            if sign in low:
                return True
        for secret in _known:
            if secret in text:
                return True
    return False


def harmless(text: str) -> bool:
    """Whether *text* is an id of hexadecimal digits and no secret that we know. No sign of a secret fits into these."""
    if _ID.fullmatch(text) is None:
        return False
    for secret in _known:  # noqa: SIM110 - a generator costs more than the look, and every job is looked at
        if secret in text:
            return False
    return True


def redacted(text: str) -> str:
    """*text* without what looks like a secret, or is one that we know."""
    for each in _known:
        if each in text:
            text = text.replace(each, GONE)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def redacted_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line without secrets: what is called like one is left out, the rest is searched."""
    return {name: GONE if _is_secret(name, value) else _redacted(value) for name, value in fields.items()}


def _is_secret(name: str, value: object) -> bool:
    return isinstance(value, str) and _FIELDS.fullmatch(name) is not None


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return redacted_fields({str(name): each for name, each in value.items()})
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [_redacted(each) for each in value]
    return value
