"""A page is made: the template, what every template may use, and whether a region of it is enough."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from retoma.web.packages import files, packages
from retoma.web.pages import styles
from retoma.web.pages.assets import address_of
from retoma.web.pages.languages import TAGS, base_of, language_for
from retoma.web.words import phrase, phrases

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may load and run: our own files, nothing inline, nothing from elsewhere."""

THEMES = ("light", "dark")
_KILO = 1024


def page(
    request: Request, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """The page that *template* makes of *values*; a region of it alone when the request names one."""
    made = _environment().get_template(template)
    given = {**_given(request), **values}
    given["ui"] = _environment().get_template("macros.html").make_module(given)
    region = region_of(request)
    block = made.blocks.get(region) if region else None
    html = made.render(given) if block is None else "".join(block(made.new_context(given)))
    return HTMLResponse(
        html,
        status,
        {
            "Content-Security-Policy": POLICY,
            "Content-Language": TAGS[given["lang"]],
            "Vary": "Accept, Accept-Language, Cookie, HX-Request, HX-Target",
            **(headers or {}),
        },
    )


def region_of(request: Request) -> str | None:
    """The block of the element that asks for itself alone: its id, up to "--" where there are many of a kind."""
    if request.headers.get("hx-request") != "true" or request.headers.get("hx-request-type") == "full":
        return None
    return request.headers.get("hx-target", "").partition("#")[2].partition("--")[0] or None


def _given(request: Request) -> dict[str, Any]:
    """What every template may use."""
    language, base = language_for(request), base_of(request)
    theme = request.cookies.get("retoma_theme", "")
    visit = getattr(request.state, "visit", None)

    def say(key: str, **values: object) -> str:
        return phrase(language, key, **values)

    def words(*prefixes: str) -> Markup:
        # Data, not a program: the policy does not concern it. "<" is written so that it cannot end the element.
        kept = {key: text for key, text in phrases(language).items() if key.startswith(prefixes)}
        return Markup(json.dumps(kept, ensure_ascii=False).replace("<", "\\u003c"))  # noqa: S704

    return {
        "lang": language,
        "tag": TAGS[language],
        "languages": TAGS,
        "theme": theme if theme in THEMES else "",
        "base": base,
        "path": request.url.path.removeprefix(base) or "/",
        "query": request.url.query,
        "say": say,
        "knows": phrases(language).__contains__,
        "words_as_json": words,
        "url": lambda path, **query: f"{base}{path}" + (f"?{urlencode(query)}" if query else ""),
        "static": lambda name: f"{base}{address_of(name)}",
        "look": lambda kind, state: styles.state_styles()[kind][str(state)],
        "icon": styles.icon,
        "may": lambda scope: visit is not None and visit.may(scope),
        "read_only": visit is not None and visit.app.settings.web_read_only == "on",
        "signed_in": visit is not None and visit.caller != "local",
        "nav": getattr(request.app.state, "nav", ()),
        "number": lambda value, places=0: _number(value, language, places),
        "money": lambda amount: money_of(None if amount is None else Decimal(amount), language),
        "spent": lambda amount, unpriced: _spent(amount, unpriced, language),
        "size": lambda value: _size(value, language),
        "stamp": _stamp,
        "plain_time": lambda value: _plain_time(value, language),
    }


def _environment() -> Environment:
    return _environment_of(packages())


@cache
def _environment_of(packages: tuple[str, ...]) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in packages if files((each,), "templates")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _number(value: float, language: str, places: int = 0) -> str:
    """A number as people write it there; what moves later is written by Intl, in the same way."""
    text = f"{value:,.{places}f}"
    return text if language == "en" else text.translate({ord(","): ".", ord("."): ","})


def _amount(amount: Decimal, language: str) -> str:
    """An amount of dollars; small ones with two digits that count, so that none reads as nothing."""
    places = 2 if amount >= 1 or not amount else min(9, max(4, 1 - amount.adjusted()))
    return _number(float(amount), language, places)


def money_of(amount: Decimal | None, language: str) -> str:
    """What something cost; None is unknown."""
    return phrase(language, "money.unknown") if amount is None else f"US$ {_amount(amount, language)}"


def _spent(amount: Decimal, unpriced: int, language: str) -> str:
    """What was spent in all, and how many calls cost what nobody knows."""
    known = {"spent": _amount(amount, language)}
    if not unpriced:
        return phrase(language, "money.spent", **known)
    calls = {"n": unpriced, "count": _number(unpriced, language)}
    return phrase(language, "money.spent_at_least" if amount else "money.spent_unknown", **known, **calls)


def _size(value: int, language: str) -> str:
    if value < _KILO:
        return f"{value} B"
    size, unit = value / _KILO, "KB"
    if size >= _KILO:
        size, unit = size / _KILO, "MB"
    return f"{_number(size, language, 0 if size >= 10 else 1)} {unit}"  # noqa: PLR2004 - two digits are enough


def _stamp(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _plain_time(value: datetime, language: str) -> str:
    """For those without JavaScript; with it, the page shows the reader's own time."""
    return value.astimezone(UTC).strftime("%d/%m/%Y %H:%M UTC" if language == "pt" else "%Y-%m-%d %H:%M UTC")
