"""Requests that nobody may send: a reader changes nothing, whatever form is forged."""

from __future__ import annotations

import re

from fastapi.routing import iter_route_contexts

from retoma import Retoma
from retoma.web import site

from .conftest import PIPELINES, Open

OWN = {"/console/logout", "/console/views", "/console/views/{id}/remove", "/console/language", "/console/theme"}
"""What a reader may send: a saved view is a person's own."""


def forms(app: Retoma) -> list[str]:
    """The path of every form of the console and of the products' pages."""
    found = {
        re.sub(r":\w+}", "}", each.path)
        for each in iter_route_contexts(site(app).routes)
        if "POST" in (getattr(each, "methods", None) or ())
    }
    return sorted(each for each in found if each.startswith("/console/"))


def test_a_reader_who_forges_any_form_of_the_console_gets_403_and_changes_nothing(open_house: Open) -> None:
    house = open_house()
    reader = house.key("read", "content:read")
    app = Retoma(settings=house.settings, pipelines=PIPELINES)
    paths = [each for each in forms(app) if each not in OWN]
    allowed = []
    for path in paths:
        asked = re.sub(r"{\w+}", "1", path)
        answered = house.client.post(asked, data={"reason": "x"}, headers={**reader, "Accept": "text/html"})
        if answered.status_code != 403:
            allowed.append((path, answered.status_code))

    assert len(paths) > 40
    assert allowed == []
