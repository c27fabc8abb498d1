"""A server without keys: whoever merely reaches the port is refused; the token of this machine opens."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from retoma import Retoma
from retoma.app.access import local_token
from retoma.errors import ConfigurationError
from retoma.web.server.server import guard, listen

from .conftest import PIPELINES, House, Open, code

ORDER = {"pipeline": "double", "input": 1}


@pytest.fixture
def keyless(open_house: Open, tmp_path: Path) -> House:
    return open_house(token="on", home=tmp_path / "home")


def bearer(house: House) -> dict[str, str]:
    return {"Authorization": f"Bearer {local_token.token_of(house.settings.home)}"}


def printed(house: House) -> str:
    """The link that the server prints when it starts, as a path."""
    with listen("127.0.0.1", 0) as listening:
        said = house.ask(lambda app: guard(app, listening))
    found = re.search(r"http://127\.0\.0\.1:\d+(/login\?token=\S+)", said)
    assert found, said
    return found[1]


def test_without_the_token_nothing_is_opened_and_with_it_everything(keyless: House) -> None:
    for refused in (keyless.get("/jobs"), keyless.post("/jobs", ORDER), keyless.get("/audit")):
        assert code(refused) == (401, "auth_missing")
        assert "retoma token" in refused.json()["detail"]
    token = bearer(keyless)

    assert keyless.post("/jobs", ORDER, headers=token).status_code == 202
    assert keyless.get("/jobs/1", headers=token).json()["input"] == 1
    assert code(keyless.get("/jobs", headers={"Authorization": token["Authorization"][:-1]})) == (401, "auth_invalid")
    assert keyless.client.get("/livez").status_code == 200
    assert keyless.client.get("/readyz").status_code == 200


@contextmanager
def bare_proxy(port: int) -> Iterator[int]:
    """The port of a proxy as one line of nginx makes it: another Host, and not a word of for whom it speaks."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            caller, _ = listening.accept()
            with caller, socket.create_connection(("127.0.0.1", port)) as onward:
                asked = caller.recv(65_536)
                lines = [
                    each for each in asked.split(b"\r\n") if not each.lower().startswith((b"host:", b"connection:"))
                ]
                lines[0] = lines[0].replace(b"HTTP/1.1", b"HTTP/1.0")
                lines.insert(1, b"Host: 127.0.0.1:%d" % port)
                onward.sendall(b"\r\n".join(lines))
                while piece := onward.recv(65_536):
                    caller.sendall(piece)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def test_a_bare_proxy_in_front_is_no_open_door(keyless: House) -> None:
    with bare_proxy(int(keyless.url.rpartition(":")[2])) as port:
        refused = httpx2.get(f"http://127.0.0.1:{port}/api/v1/jobs", headers={"Host": "jobs.example"})

    assert (refused.status_code, refused.json()["code"]) == (401, "auth_missing")


@pytest.mark.parametrize("name", ["CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "Fly-Client-IP"])
def test_nor_is_one_that_speaks_for_others_in_its_own_words(keyless: House, name: str) -> None:
    assert code(keyless.get("/jobs", headers={name: "203.0.113.7"})) == (401, "auth_missing")


def test_the_printed_address_signs_in_once(keyless: House) -> None:
    link = printed(keyless)
    browser, other = (httpx2.Client(base_url=keyless.url, timeout=240) for _ in range(2))
    with browser, other:
        led = browser.get(link)
        assert led.status_code == 303
        assert "token=" not in led.headers["location"]
        assert browser.get("/api/v1/jobs").status_code == 200
        assert browser.get(link).status_code == 303

        again = other.get(link, headers={"Accept": "text/html"})

        assert again.status_code == 401
        assert "Este link não serve mais para entrar" in again.text
        assert "set-cookie" not in again.headers
        assert code(other.get("/api/v1/jobs")) == (401, "auth_missing")
    for wrong in (link[:-1], re.sub(r"token=\d+", "token=1", link), "/login?token=x"):
        assert keyless.client.get(wrong).status_code == 401


def test_the_form_takes_the_token_too_and_removing_the_file_ends_what_it_opened(keyless: House) -> None:
    token = local_token.token_of(keyless.settings.home)
    answered = keyless.client.post("/login", data={"key": token})
    assert answered.status_code == 303
    assert keyless.get("/jobs").status_code == 200

    (keyless.settings.home / "token").unlink()

    def out() -> bool:
        return keyless.get("/jobs").status_code == 401

    while not out():
        pass  # the file is read again within a second
    assert local_token.token_of(keyless.settings.home) != token


def test_once_a_key_exists_the_token_opens_nothing(keyless: House) -> None:
    token = bearer(keyless)
    cookie = keyless.client.get(printed(keyless)).headers["set-cookie"].partition(";")[0]
    assert keyless.get("/jobs", headers=token).status_code == 200

    key = keyless.key("read")

    assert code(keyless.get("/jobs", headers=token)) == (401, "auth_invalid")
    assert code(keyless.get("/jobs", headers={"Cookie": cookie})) == (401, "auth_invalid")
    assert keyless.get("/jobs", headers=key).status_code == 200


def test_who_turns_it_off_is_warned(open_house: Open) -> None:
    house = open_house(token="off")
    with listen("127.0.0.1", 0) as listening:
        said = house.ask(lambda app: guard(app, listening))

    assert said.startswith("WARNING: there is no API key and RETOMA_TOKEN is off")
    assert house.get("/jobs").status_code == 200


# — the file —


def test_the_file_is_its_owners_alone_and_everybody_gets_the_same(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(local_token.token_of(tmp_path / "h"))) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(set(found)) == 1
    assert (tmp_path / "h/token").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in (tmp_path / "h").iterdir()) == [".gitignore", "token"]


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_file_that_others_can_read_or_write_is_not_believed(tmp_path: Path, mode: int) -> None:
    local_token.token_of(tmp_path)
    (tmp_path / "token").chmod(mode)

    with pytest.raises(ConfigurationError, match="Others than its owner"):
        local_token.token_of(tmp_path)


def test_a_home_that_cannot_be_written_keeps_the_server_from_starting(open_house: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    house = open_house(token="on", home=tmp_path / "file/home")

    with listen("127.0.0.1", 0) as listening, pytest.raises(ConfigurationError, match="cannot be kept"):
        house.ask(lambda app: guard(app, listening))
    assert code(house.get("/jobs")) == (401, "auth_missing")
    assert Retoma(settings=house.settings, pipelines=PIPELINES).settings.token == "on"
