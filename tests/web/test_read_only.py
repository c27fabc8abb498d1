"""A server that only shows: every change is refused with a sentence, and the pages say why."""

from __future__ import annotations

from .conftest import Open, code


def test_a_read_only_server_refuses_a_change_and_does_nothing(open_house: Open) -> None:
    house = open_house(web_read_only="on")
    key = house.key("admin")

    refused = house.post("/jobs", {"pipeline": "double", "input": 1}, headers=key)
    form = house.client.post("/console/queues/double/pause", data={}, headers={**key, "Accept": "text/html"})

    assert code(refused) == (403, "read_only")
    assert form.status_code == 403
    assert "--read-only" in form.text
    assert house.ask(lambda app: app.jobs.find(pipeline="double")) == []
    assert [each for each in house.ask(lambda app: app.queues.all()) if each.paused_at] == []


def test_the_pages_of_a_read_only_server_say_so_and_those_of_others_do_not(open_house: Open) -> None:
    silent, house = open_house(), open_house(web_read_only="on")
    key = house.key("read") | {"Accept": "text/html", "Accept-Language": "pt-BR"}

    shown, other = house.client.get("/console/", headers=key), silent.client.get("/console/", headers=key)

    assert shown.status_code == other.status_code == 200
    assert "somente para leitura" in shown.text
    assert "somente para leitura" not in other.text
