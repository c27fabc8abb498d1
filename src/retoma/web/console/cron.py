"""A cron expression in words, in the language of the page; what has no plain words stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Callable

Say = Callable[..., str]

_EVERY = re.compile(r"\*/(\d{1,2})")
_NUMBER = re.compile(r"\d{1,2}")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FIELDS, _WEEK, _MOST_TIMES = 5, 7, 4
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def in_words(cron: str, say: Say) -> str:
    """When *cron* comes, such as "every day at 04:00"."""
    parts = _NAMED.get(cron.strip().lower(), cron).lower().split()
    if len(parts) != _FIELDS:
        return say("console.cron.plain", cron=cron)
    minute, hour, day, month, weekday = parts
    often = _often(minute, hour, say) if (day, month, weekday) == ("*", "*", "*") else None
    if often:
        return often
    times = _times(minute, hour)
    days = _on(day, month, weekday, say)
    if times is None or days is None:
        return say("console.cron.plain", cron=cron)
    return say("console.cron.at", days=days, times=_and(times, say))


def _often(minute: str, hour: str, say: Say) -> str | None:
    """What comes several times a day, evenly."""
    if hour == "*":
        if minute == "*":
            return say("console.cron.every_minute")
        if found := _EVERY.fullmatch(minute):
            return say("console.cron.every_minutes", n=int(found[1]))
        if _NUMBER.fullmatch(minute):
            return say("console.cron.every_hour", minute=f"{int(minute):02d}")
    if (found := _EVERY.fullmatch(hour)) and _NUMBER.fullmatch(minute):
        return say("console.cron.every_hours", n=int(found[1]), minute=f"{int(minute):02d}")
    return None


def _times(minute: str, hour: str) -> list[str] | None:
    hours = hour.split(",")
    if not _NUMBER.fullmatch(minute) or not all(_NUMBER.fullmatch(each) for each in hours) or len(hours) > _MOST_TIMES:
        return None
    return [f"{int(each):02d}:{int(minute):02d}" for each in hours]


def _on(day: str, month: str, weekday: str, say: Say) -> str | None:
    if (day, month, weekday) == ("*", "*", "*"):
        return say("console.cron.every_day")
    if (day, month) == ("*", "*"):
        return _weekdays(weekday, say)
    if weekday != "*" or not _NUMBER.fullmatch(day):
        return None
    if month == "*":
        return say("console.cron.every_month", day=int(day))
    found = _one(month, _MONTHS, first=1)
    return None if found is None else say("console.cron.every_year", day=int(day), month=say(_key("months", found)))


def _weekdays(weekday: str, say: Say) -> str | None:
    if "-" in weekday and "," not in weekday:
        first, last = (_one(each, _DAYS) for each in weekday.split("-", 1))
        if first is None or last is None:
            return None
        return say("console.cron.from_to", first=say(_key("days", first)), last=say(_key("days", last)))
    found = [_one(each, _DAYS) for each in weekday.split(",")]
    if None in found:
        return None
    return say("console.cron.on_days", days=_and([say(_key("each", each or 0)) for each in found], say))


def _one(text: str, names: tuple[str, ...], first: int = 0) -> int | None:
    """The place of a name, or of its number, among *names*."""
    if text in names:
        return names.index(text)
    if not _NUMBER.fullmatch(text):
        return None
    place = int(text) - first if len(names) != _WEEK else int(text) % _WEEK
    return place if 0 <= place < len(names) else None


def _key(kind: str, place: int) -> str:
    return f"console.cron.{kind}.{(_MONTHS if kind == 'months' else _DAYS)[place]}"


def _and(parts: list[str], say: Say) -> str:
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} {say('console.cron.and')} {parts[-1]}"
