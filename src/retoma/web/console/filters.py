"""Filters of jobs in the address of a page: read, written, and told in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import QueryParams

from retoma.errors import ConfigurationError
from retoma.model.operation import JobFilter
from retoma.web.http.auth import Visit

Say = Callable[..., str]

_TEXTS = ("pipeline", "queue", "fingerprint", "key_prefix")
_LONGEST = 500


def fields_in(query: QueryParams) -> dict[str, str]:
    """The fields of an address; of those that may come several times, all together."""
    many = {name: ",".join(query.getlist(name)) for name in ("state", "ids")}
    return {**dict(query), **{name: text for name, text in many.items() if text}}


def filter_of(said: Mapping[str, str], visit: Visit, **usual: Any) -> JobFilter:
    """The filter that the fields of a form say; what they leave out is as *usual*."""
    given: dict[str, Any] = {name: said[name].strip()[:_LONGEST] for name in _TEXTS if said.get(name, "").strip()}
    given["pipeline"] = visit.only(given.get("pipeline"))
    if states := tuple(each for each in said.get("state", "").split(",") if each):
        given["states"] = states
    given["ids"] = tuple(_number(each) for each in said.get("ids", "").replace(" ", ",").split(",") if each)
    if said.get("batch", "").strip():
        given["batch_id"] = _number(said["batch"].strip().lstrip("#"))
    for name, field in (("created_after", "after"), ("created_before", "before")):
        if said.get(field, "").strip():
            given[name] = _moment(said[field].strip())
    return JobFilter(**{**usual, **given})


def _number(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 18:  # noqa: PLR2004 - the digits of a bigint
        raise ConfigurationError(f"{text[:40]!r} is not the number of a job or a batch.", next="Use digits alone.")
    return int(text)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text[:40]!r} is not a time.", next="Write it as 2026-05-01T12:00.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def query_of(filter: JobFilter) -> dict[str, str]:
    """The fields of an address that say *filter*."""
    said: dict[str, str] = {name: getattr(filter, name) for name in _TEXTS if getattr(filter, name)}
    if filter.states:
        said["state"] = ",".join(filter.states)
    if filter.batch_id is not None:
        said["batch"] = str(filter.batch_id)
    if filter.ids:
        said["ids"] = ",".join(map(str, filter.ids))
    for name, field in (("created_after", "after"), ("created_before", "before")):
        if moment := getattr(filter, name):
            said[field] = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
    return said


def in_words(filter: JobFilter, say: Say) -> list[str]:
    """What *filter* asks for, one phrase for each thing."""
    told = [say("console.filter.states", states=", ".join(say(f"state.job.{each}") for each in filter.states))]
    told = told if filter.states else []
    told += [say(f"console.filter.{name}", value=getattr(filter, name)) for name in _TEXTS if getattr(filter, name)]
    if filter.batch_id is not None:
        told.append(say("console.filter.batch", value=filter.batch_id))
    for name in ("created_after", "created_before"):
        if moment := getattr(filter, name):
            told.append(say(f"console.filter.{name}", value=moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")))
    if filter.ids:
        told.append(say("console.filter.ids", n=len(filter.ids)))
    return told or [say("console.filter.all")]
