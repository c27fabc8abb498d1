"""What comes in is counted: heads, trailers, time, connections and streams. Nobody is locked out by others."""

from __future__ import annotations

import json
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import psutil
import pytest

from .conftest import House, Open, code
from .test_serve import Shell, shell

pytestmark = pytest.mark.timeout(600)

_ = shell  # a fixture that is used here, too
MUCH = 40_000_000


def connect(url: str, address: str = "127.0.0.1") -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), 60, source_address=(address, 0))


def said(connection: socket.socket) -> bytes:
    """All that the server says until it hangs up."""
    answer = b""
    try:
        while piece := connection.recv(65_536):
            answer += piece
    except ConnectionResetError:
        pass
    return answer


def problem(answer: bytes) -> tuple[int, str]:
    """Status and code of an answer, which is a problem in every respect."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    response = httpx2.Response(int(status.split()[1]), headers=headers, content=body)
    assert headers["connection"] == "close"
    return code(response)


def poured(connection: socket.socket, begin: bytes, piece: bytes) -> bytes:
    """Send *begin* and then *piece* without end, until the server says something or *MUCH* was sent."""
    connection.sendall(begin)
    connection.setblocking(False)
    sent = 0
    while sent < MUCH:
        readable, writable, _ = select.select([connection], [connection], [], 60)
        if readable:
            break
        if writable:
            sent += connection.send(piece)
    connection.settimeout(60)
    return said(connection)


HEAD = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "a line": (b"GET /", b"x" * 60_000, (414, "url_too_long")),
    "a header": (HEAD + b"X-A: ", b"x" * 60_000, (431, "headers_too_large")),
    "headers": (HEAD, b"x: y\r\n" * 10_000, (431, "headers_too_large")),
    "empty lines": (b"", b"\r\n" * 30_000, (431, "headers_too_large")),
    "a trailer": (CHUNKED + b"0\r\nX-A: ", b"x" * 60_000, None),
    "an extension": (CHUNKED + b"5;", b"x" * 60_000, None),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_refused_and_takes_no_memory(shell: Shell, what: str) -> None:
    begin, piece, told = ENDLESS[what]
    process, url, _ = shell.start("serve", "--app", "program:app", "--port", "0")
    httpx2.get(f"{url}/api/v1/jobs", timeout=240).raise_for_status()
    memory = psutil.Process(process.pid).memory_info
    with connect(url) as small:
        poured(small, b"GET /" + b"x" * 70_000, b"x")  # what a refusal itself needs is there
    before = memory().rss

    with ExitStack() as stack:
        connections = [stack.enter_context(connect(url)) for _ in range(4)]
        answers = [poured(each, begin, piece) for each in connections]
        grown = memory().rss - before

    assert grown < 8_000_000
    if told is not None:
        assert {problem(each) for each in answers} == {told}
    else:
        # The body of such a request is waited for when it is refused, or has been answered by then.
        assert all(each.startswith((b"HTTP/1.1 4", b"")) for each in answers)
    assert httpx2.get(f"{url}/livez", timeout=240).status_code == 200


def test_a_head_just_within_the_limits_is_read(house: House) -> None:
    many = {f"X-{number}": "y" for number in range(80)}
    large = {"X-Large": "x" * 60_000}

    assert house.client.get("/livez", headers=many).status_code == 200
    assert house.client.get("/livez", headers=large).status_code == 200


@pytest.mark.parametrize("language", ["en", "pt"])
def test_too_many_headers_are_told_in_the_callers_language(still_house: House, language: str) -> None:
    many = {"Accept-Language": language} | {f"X-{number}": "y" for number in range(101)}

    told = still_house.client.get("/livez", headers=many)

    assert code(told) == (431, "too_many_headers")
    assert ("At most 100" in told.text, "No máximo 100" in told.text) == (language == "en", language == "pt")


def test_a_limit_of_ones_own_holds(open_house: Open) -> None:
    house = open_house(web_header_bytes=2000, web_headers=20)

    assert code(house.client.get("/livez", headers={"X-A": "x" * 2000})) == (431, "headers_too_large")
    assert code(house.client.get("/livez?q=" + "x" * 2000)) == (414, "url_too_long")
    assert code(house.client.get("/livez", headers={f"X-{n}": "" for n in range(21)})) == (431, "too_many_headers")
    assert house.client.get("/livez").status_code == 200


def test_a_body_may_be_longer_than_a_head(open_house: Open) -> None:
    house = open_house(web_header_bytes=2000)
    order = {"pipeline": "anything", "input": "x" * 500_000}

    first = house.post("/jobs", order)
    chunked = house.client.post(
        "/api/v1/jobs", content=iter([json.dumps(order).encode()]), headers={"Content-Type": "application/json"}
    )

    assert (first.status_code, chunked.status_code) == (202, 202)


def test_what_is_not_http_is_told_as_a_problem(still_house: House) -> None:
    with connect(still_house.url) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 5)

        assert problem(said(connection)) == (400, "request_malformed")


def test_requests_that_are_sent_ahead_are_answered_in_order_and_are_not_without_number(still_house: House) -> None:
    ask = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(still_house.url) as few, connect(still_house.url) as many:
        few.sendall(ask * 10 + last)
        many.sendall(ask * 1000 + last)

        assert said(few).count(b'{"alive":true}') == 11
        assert said(many).count(b'{"alive":true}') < 1000


# — time —


QUICK: dict[str, Any] = {"web_header_seconds": 0.5, "web_body_seconds": 0.5, "web_keep_alive_seconds": 0.5}
HALVES = {
    "nothing": (b"", None),
    "half a line": (b"GET /liv", (408, "request_timeout")),
    "half a head": (b"GET /livez HTTP/1.1\r\nHost: loc", (408, "request_timeout")),
    "half a body": (
        HEAD + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        (408, "request_timeout"),
    ),
}


@pytest.mark.parametrize("what", HALVES)
def test_a_request_that_is_half_sent_ends(open_house: Open, what: str) -> None:
    sent, told = HALVES[what]
    house = open_house(**QUICK)
    with connect(house.url) as connection:
        connection.sendall(sent)
        answer = said(connection)

    assert (problem(answer) if answer else None) == told
    assert house.client.get("/livez").status_code == 200


def test_a_head_that_comes_letter_by_letter_ends(open_house: Open) -> None:
    house = open_house(**QUICK)
    with connect(house.url) as connection:
        while not select.select([connection], [], [], 0.1)[0]:
            connection.sendall(b"G")

        assert said(connection).startswith(b"HTTP/1.1 4")


def test_a_connection_that_rests_between_requests_ends_when_it_is_set_so(open_house: Open) -> None:
    house = open_house(**QUICK)
    with connect(house.url) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")

        assert said(connection).startswith(b"HTTP/1.1 200")


def test_one_that_goes_on_sending_after_its_answer_ends(open_house: Open) -> None:
    house = open_house(**QUICK, api_key="a-long-secret-of-the-environment")
    with connect(house.url) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000000000\r\n\r\n")
        answer = connection.recv(65_536)
        ended = False
        while not ended:
            try:
                connection.sendall(b"x")
                ended = bool(select.select([connection], [], [], 0.05)[0]) and not connection.recv(65_536)
            except OSError:
                ended = True

    assert answer.startswith(b"HTTP/1.1 401")


def test_one_that_does_not_read_its_answer_ends(open_house: Open) -> None:
    house = open_house(**QUICK)
    large = house.enqueue("anything", "x" * 900_000)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", int(house.url.rpartition(":")[2])))
        connection.sendall(b"GET /api/v1/jobs/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % large * 19)
        us = connection.getsockname()

        def served() -> bool:
            return any(each.raddr == us for each in psutil.Process().net_connections("tcp"))

        while not served():  # the kernel connects before the server takes the connection over
            time.sleep(0.05)
        while served():
            time.sleep(0.05)
        assert said(connection).count(b"HTTP/1.1 200") < 19
    assert house.client.get("/livez").status_code == 200


def test_a_slow_body_is_read_while_it_comes(open_house: Open) -> None:
    house = open_house(**QUICK)
    body = json.dumps({"pipeline": "double", "input": 21}).encode()
    head = HEAD + b"Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with connect(house.url) as connection:
        connection.sendall(head)
        for place in range(len(body)):
            assert not select.select([connection], [], [], 0.02)[0]
            connection.sendall(body[place : place + 1])

        assert said(connection).startswith(b"HTTP/1.1 202")


# — how many —


class Following:
    """Streams of one batch over plain sockets, and whether each was let in."""

    def __init__(self, house: House, headers: dict[str, str], stack: ExitStack) -> None:
        self.house = house
        self._stack = stack
        made = house.post("/batches", {"pipeline": "double", "name": "open"}, headers=headers)
        self._path = made.json()["events_url"]

    def one(self, headers: dict[str, str], address: str = "127.0.0.1") -> socket.socket:
        connection = self._stack.enter_context(connect(self.house.url, address))
        lines = {"Host": "localhost", "Accept": "text/event-stream"} | headers
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        connection.sendall(f"GET {self._path} HTTP/1.1\r\n{text}\r\n".encode())
        return connection


def status_of(connection: socket.socket) -> int:
    """That of the answer, once a stream has told its first piece or a refusal is whole."""
    answer = b""
    while b"event: snapshot" not in answer and (piece := connection.recv(65_536)):
        answer += piece
        if b'"code"' in answer:
            break
    return int(answer.split()[1])


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_connections_that_rest_give_way_to_new_ones_from_their_address(open_house: Open, stack: ExitStack) -> None:
    house = open_house(web_connections_per_address=5)
    resting = [stack.enter_context(connect(house.url, "127.0.0.2")) for _ in range(20)]

    with connect(house.url, "127.0.0.2") as last:
        last.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert said(last).startswith(b"HTTP/1.1 200")
    for each in resting[:10]:
        assert said(each) == b""  # let go


def test_an_address_whose_connections_are_all_in_use_is_told_so_and_others_are_not(
    open_house: Open, stack: ExitStack
) -> None:
    house = open_house(web_connections_per_address=5)
    following = Following(house, {}, stack)
    key = house.key("read")
    assert [status_of(following.one(key, "127.0.0.2")) for _ in range(5)] == [200] * 5

    with connect(house.url, "127.0.0.2") as sixth, connect(house.url, "127.0.0.3") as other:
        for each in (sixth, other):
            each.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        refused, served = said(sixth), said(other)

    assert problem(refused) == (429, "too_many_connections")
    assert b"retry-after: 5" in refused.lower()
    assert b'ratelimit-policy: "too_many_connections";q=5\r\n' in refused.lower()
    assert served.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("limit", ["web_streams_per_key", "web_streams_per_address"])
def test_streams_of_one_key_and_of_one_address_are_counted_and_a_place_is_given_back(
    open_house: Open, stack: ExitStack, limit: str
) -> None:
    house = open_house(**{limit: 3})
    following = Following(house, {}, stack)
    mine, other = house.key("read"), house.key("read")
    first = [following.one(mine) for _ in range(3)]
    assert [status_of(each) for each in first] == [200] * 3

    fourth = house.client.get(
        following._path, headers=mine | {"Accept": "text/event-stream", "Accept-Language": "pt-BR"}
    )

    assert code(fourth) == (429, "too_many_streams")
    assert fourth.headers["retry-after"] == "30"
    assert fourth.headers["ratelimit-policy"] == '"too_many_streams";q=3'
    assert "No máximo 3" in fourth.text
    assert status_of(following.one(other, "127.0.0.3")) == 200
    first[0].close()
    while status_of(following.one(mine)) != 200:
        pass  # it is noticed in a moment


def test_a_server_that_is_full_of_streams_answers_probes_and_tells_others_to_come_again(
    open_house: Open, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retoma.web.server.connections._OF_STREAMS", 2.0)  # or there would always be room
    house = open_house(web_connections=16)
    following = Following(house, {}, stack)
    house.client.close()
    assert [status_of(following.one({})) for _ in range(16)] == [200] * 16

    with httpx2.Client(base_url=house.url, timeout=240) as client:
        assert client.get("/livez").status_code == 200
        assert client.get("/readyz").status_code == 200
    with connect(house.url) as other:
        other.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert problem(said(other)) == (503, "overloaded")


def test_streams_leave_room_for_others(open_house: Open, stack: ExitStack) -> None:
    house = open_house(web_connections=16)
    following = Following(house, {}, stack)

    told = [status_of(following.one({})) for _ in range(30)]

    assert (told.count(200), told.count(429)) == (12, 18)
    assert house.get("/jobs").status_code == 200


def test_a_thousand_idle_connections_and_a_thousand_streams_lock_nobody_out(shell: Shell, stack: ExitStack) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5000:
        pytest.skip(f"this process may open {hard} files, and the test needs 5,000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (5000, hard))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    # With the descriptors that most systems give, of which it may have more.
    shell.environment["RETOMA_LOG_LEVEL"] = "error"
    process, url, _ = shell.start("serve", "--app", "program:app", "--port", "0")
    client = stack.enter_context(httpx2.Client(base_url=url, timeout=120))
    batch = client.post("/api/v1/batches", json={"pipeline": "double", "name": "open"}).json()
    ask = f"GET {batch['events_url']} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
    worked: list[int] = []
    done = threading.Event()

    def work() -> None:
        with httpx2.Client(base_url=url, timeout=120) as other:
            while not done.is_set():
                worked.append(other.post("/api/v1/jobs", json={"pipeline": "double", "input": 1}).status_code)
                worked.append(other.get("/api/v1/jobs/1").status_code)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        idle = [stack.enter_context(connect(url, f"127.0.0.{2 + number % 4}")) for number in range(1000)]
        for half, each in enumerate(idle):
            each.sendall(b"GET /livez HTTP/1.1\r\nHost:"[: half % 28])
        told = []
        for _ in range(1000):
            stream = stack.enter_context(connect(url))
            stream.sendall(ask)
            told.append(status_of(stream))
        new = [httpx2.get(f"{url}{path}", timeout=120).status_code for path in ("/livez", "/readyz", "/api/v1/jobs")]
    finally:
        done.set()
        worker.join(120)

    assert new == [200, 200, 200]
    assert set(worked) == {202, 200}
    assert (told.count(200), told.count(429)) == (400, 600)  # of one caller; the rest are told to come later
    assert process.poll() is None


@pytest.mark.parametrize(("hard", "connections"), [(4096, 2000), (300, 108)])
def test_a_server_takes_the_descriptors_it_may_have_and_never_uses_them_up(
    shell: Shell, stack: ExitStack, hard: int, connections: int
) -> None:
    soft = min(hard, 256)
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    (shell.folder / "program.py").write_text(limits + (shell.folder / "program.py").read_text())
    process, url, _ = shell.start("serve", "--app", "program:app", "--port", "0", RETOMA_LOG_LEVEL="error")
    idle = [stack.enter_context(connect(url)) for _ in range(min(connections, 200) + 300)]

    told = [httpx2.get(f"{url}{path}", timeout=240).status_code for path in ("/livez", "/readyz", "/api/v1/jobs")]

    assert told == [200, 200, 200]
    assert idle
    assert psutil.Process(process.pid).num_fds() < hard
