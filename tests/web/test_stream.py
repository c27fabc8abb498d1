"""The stream: every event once and in order, across cut connections and restarted servers; it only watches."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2
import pytest

from retoma import Retoma, Run, pipeline
from retoma.web.http import stream, stream_encoders

from .conftest import serving


@dataclass(frozen=True)
class News:
    name: str
    seq: int | None
    data: Any


def read(lines: Iterator[str]) -> Iterator[News]:
    """What a browser would make of the lines."""
    name, seq, data = "message", None, ""
    for line in lines:
        field, _, value = line.partition(": ")
        match field:
            case "event":
                name = value
            case "id":
                seq = int(value)
            case "data":
                data = value
            case "" if data:
                yield News(name, seq, json.loads(data))
                name, seq, data = "message", None, ""


def follow(url: str, id: int, *, last: int | None = None, until: Any = None) -> list[News]:
    """The news of a batch up to its end, or up to the first for which *until* is true."""
    headers = {"Accept": "text/event-stream"} | ({} if last is None else {"Last-Event-ID": str(last)})
    found = []
    with httpx2.stream("GET", f"{url}/api/v1/batches/{id}/events", headers=headers, timeout=240) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        for news in read(response.iter_lines()):
            found.append(news)
            if news.name == "end" or (until and until(news)):
                break
    return found


def make(house: Any, inputs: Any = range(5), pipeline: str = "double") -> int:
    jobs = [{"input": each} for each in inputs]
    return int(house.post("/batches", {"pipeline": pipeline, "name": "x", "jobs": jobs}).json()["id"])


def numbers(news: list[News]) -> list[int]:
    return [each.seq for each in news if each.seq is not None]


def test_a_fresh_client_gets_a_snapshot_then_what_happens_then_the_end(house: Any) -> None:
    id = make(house)
    worker = threading.Timer(0.5, house.work)
    worker.start()

    news = follow(house.url, id)
    worker.join()

    assert news[0].name == "snapshot"
    assert news[0].data["total"] == 5
    assert {"state", "items", "progress"} <= {each.name for each in news}
    assert news[-1] == News("end", None, {"state": "completed"})
    assert [each.data for each in news if each.name == "progress"][-1]["completed"] == 5
    last = house.get(f"/batches/{id}").json()["event_seq"]
    assert numbers(news) == list(range(news[0].seq or 0, last + 1))


def test_a_client_that_comes_back_sees_every_event_once_and_in_order(house: Any) -> None:
    id = make(house, range(30))
    house.work()
    last = house.get(f"/batches/{id}").json()["event_seq"]

    seen = numbers(follow(house.url, id, last=0, until=lambda news: news.seq == 3))
    seen += numbers(follow(house.url, id, last=seen[-1]))

    assert seen == list(range(1, last + 1))


def test_events_go_on_across_a_server_that_was_restarted(open_house: Any) -> None:
    first = open_house()
    id = make(first)
    seen = numbers(follow(first.url, id, last=0, until=lambda news: news.seq == 2))
    second = open_house()
    second.work()

    seen += numbers(follow(second.url, id, last=seen[-1]))

    assert seen == list(range(1, second.get(f"/batches/{id}").json()["event_seq"] + 1))


def test_a_client_that_saw_the_end_is_told_not_to_come_again(house: Any) -> None:
    id = make(house)
    house.work()
    last = house.get(f"/batches/{id}").json()["event_seq"]

    answer = house.get(f"/batches/{id}/events", headers={"Accept": "text/event-stream", "Last-Event-ID": str(last)})

    assert answer.status_code == 204


@pytest.mark.parametrize("last", [999_999, 10**18])
def test_a_number_nobody_gave_out_is_answered_with_a_reset_and_a_snapshot(house: Any, last: int) -> None:
    id = make(house)

    news = follow(house.url, id, last=last, until=lambda news: news.name == "snapshot")

    assert [each.name for each in news] == ["reset", "snapshot"]


def test_who_is_far_behind_gets_a_reset_instead_of_the_whole_story(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_MOST_BEHIND", 3)
    id = make(house, range(40))
    house.work()

    news = follow(house.url, id, last=1)

    assert [each.name for each in news[:2]] == ["reset", "snapshot"]
    assert news[-1].name == "end"


def test_scripts_read_the_same_news_as_lines_of_json(house: Any) -> None:
    id = make(house)
    house.work()

    answer = house.get(f"/batches/{id}/events", headers={"Accept": "application/x-ndjson", "Last-Event-ID": "0"})

    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["id"] for each in lines if each["id"]] == list(range(1, len([e for e in lines if e["id"]]) + 1))
    assert lines[-1] == {"event": "end", "id": None, "data": {"state": "completed"}}


def test_without_a_stream_the_events_are_a_page_with_a_cursor(house: Any) -> None:
    id = make(house)

    page = house.get(f"/batches/{id}/events?limit=1").json()
    rest = house.get(f"/batches/{id}/events?after={page['last']}").json()

    assert [each["kind"] for each in [*page["events"], *rest["events"]]] == ["created", "sealed"]


def test_a_silent_batch_still_beats_and_says_when_it_will_be_asked_why(
    house: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT", 0.2)
    id = make(house)

    news = follow(house.url, id, until=lambda news: news.name == "heartbeat")

    assert news[-1].seq is None
    assert news[-1].data.keys() == {"server_time", "last_progress_at", "stalls_in_s", "state"}


def test_a_heartbeat_says_what_time_it_is_when_it_beats(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT", 0.2)
    id = make(house)
    beats: list[str] = []

    def third(news: News) -> bool:
        if news.name == "heartbeat":
            beats.append(news.data["server_time"])
        return len(beats) == 3

    before = house.ask(lambda app: app.database.now())
    follow(house.url, id, until=third)
    after = house.ask(lambda app: app.database.now())

    times = [before, *map(datetime.fromisoformat, beats), after]
    assert times == sorted(set(times)), "each is later than the one before, by the database's own clock"


def test_news_do_not_wait_for_the_next_look(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EVERY", 3600.0)
    id = make(house, range(30))
    heard: list[News] = []
    joined, ended = threading.Event(), threading.Event()

    def listen() -> None:
        heard.extend(follow(house.url, id, last=0, until=lambda news: joined.set() if news.seq == 2 else None))
        ended.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert joined.wait(240)
    house.work()

    assert ended.wait(240), "the worker's hint woke the reader"
    listener.join()
    assert numbers(heard) == list(range(1, house.get(f"/batches/{id}").json()["event_seq"] + 1))


def test_what_a_request_changes_is_told_at_once_by_another_process_too(
    open_house: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "EVERY", 3600.0)
    here, there = open_house(), open_house()
    id = make(here)
    joined = threading.Event()
    heard: list[News] = []

    def listen() -> None:
        def seen(news: News) -> bool:
            joined.set()
            return bool(news.name == "state" and news.data["kind"] == "paused")

        heard.extend(follow(there.url, id, until=seen))

    listener = threading.Thread(target=listen)
    listener.start()
    assert joined.wait(240)
    here.post(f"/batches/{id}/pause").raise_for_status()
    listener.join(60)

    assert heard[-1].data["kind"] == "paused"


@pytest.mark.parametrize("pooler", ["session", "transaction"])
def test_a_lost_hint_delays_news_and_loses_none(
    open_house: Any, psql: Any, monkeypatch: pytest.MonkeyPatch, pooler: str
) -> None:
    monkeypatch.setattr(stream, "EVERY", 0.1)
    house = open_house(pooler=pooler)
    id = make(house, range(30))
    listeners = "from pg_stat_activity where datname = current_database() and query ilike '%advisory_lock_shared%'"
    joined = threading.Event()
    heard: list[News] = []

    def listen() -> None:
        heard.extend(follow(house.url, id, last=0, until=lambda news: joined.set() if news.seq == 2 else None))

    listener = threading.Thread(target=listen)
    listener.start()
    assert joined.wait(240)
    psql.execute(f"select pg_terminate_backend(pid) {listeners} and pid <> pg_backend_pid()")
    house.work()
    listener.join(60)

    assert numbers(heard) == list(range(1, house.get(f"/batches/{id}").json()["event_seq"] + 1))


async def test_who_joins_in_the_middle_hears_each_event_once(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EVERY", 0.05)
    monkeypatch.setattr(stream, "_MOST_BEHIND", 10_000)

    async def follower(newsroom: stream.EventHub, id: int) -> list[int]:
        heard = []
        async for text in newsroom.follow(id, 0, stream_encoders.LINES[True]):
            heard += [piece["id"] for piece in map(json.loads, text.splitlines()) if piece["id"]]
        return heard

    async with Retoma(settings=settings, pipelines=[idle]) as app:
        batch = await app.batch(idle, range(120), name="x")
        newsroom = stream.EventHub(app)
        hearing = []
        for job in reversed(await app.jobs.find(pipeline="idle", limit=200)):
            hearing.append(asyncio.create_task(follower(newsroom, batch.id)))
            await app.jobs.cancel(job.id)
        heard = await asyncio.gather(*hearing)
        last = (await app.batches.get(batch.id)).event_seq
        await newsroom.close()

    assert [each for each in heard if each != list(range(1, last + 1))] == []


def test_a_client_that_does_not_read_keeps_no_server_from_stopping(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    telling = threading.Event()

    def huge(_progress: Any) -> dict[str, str]:
        telling.set()
        return {"more": "x" * 30_000_000}  # than fits between a server and a client who does not read

    monkeypatch.setattr(stream, "figures", huge)
    with serving(Retoma(settings=settings, pipelines=[idle])) as url:
        made = httpx2.post(f"{url}/api/v1/batches", json={"pipeline": "idle", "name": "open"}, timeout=240).json()
        address = httpx2.URL(url)
        silent = socket.create_connection((address.host, address.port))
        asked = f"GET {made['events_url']} HTTP/1.1\r\nHost: {address.host}\r\nAccept: text/event-stream\r\n\r\n"
        silent.sendall(asked.encode())
        assert telling.wait(240)
    silent.close()

    assert "exceeded" not in caplog.text, "nothing had to be broken off when the grace was over"


def test_a_client_that_goes_away_harms_nothing(house: Any) -> None:
    id = make(house)
    for _ in range(5):
        follow(house.url, id, until=lambda news: news.name == "snapshot")
    house.work()

    assert follow(house.url, id, last=0)[-1].name == "end"


@pipeline("idle")
async def idle(_: int, _run: Run) -> None: ...


async def test_who_reads_too_slowly_is_told_to_look_again_and_nobody_waits_for_them(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_MOST_WAITING", 2)
    monkeypatch.setattr(stream, "EVERY", 0.02)
    monkeypatch.setattr(stream, "HEARTBEAT", 0.02)

    async with Retoma(settings=settings, pipelines=[idle]) as app:
        batch = await app.batch(idle, [1], name="x")
        newsroom = stream.EventHub(app)
        slow: AsyncIterator[bytes] = newsroom.follow(batch.id, None, stream_encoders.LINES[True])
        heard = [json.loads(await anext(slow))["event"]]
        await asyncio.sleep(0.5)  # meanwhile more than two pieces came
        for _ in range(6):
            heard.append(json.loads(await anext(slow))["event"])
            if "reset" in heard:
                break
        heard.append(json.loads(await anext(slow))["event"])
        await slow.aclose()
        await newsroom.close()

    assert heard[0] == heard[-1] == "snapshot"
    assert "reset" in heard


async def client(url: str, id: int, last: int) -> list[int]:
    """The numbers that one client hears, with as little machinery as HTTP needs."""
    address = httpx2.URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=2**22)
    writer.write(
        f"GET /api/v1/batches/{id}/events HTTP/1.1\r\nHost: {address.host}\r\nAccept: text/event-stream\r\n"
        f"Last-Event-ID: 0\r\n\r\n".encode()
    )
    heard: list[int] = []
    try:
        async with asyncio.timeout(120):
            while last not in heard[-1:]:
                line = await reader.readline()
                assert line, f"the stream ended after {heard[-1:]} of {last}"
                if line.startswith(b"id: "):
                    heard.append(int(line[4:]))
    finally:
        writer.close()
    return heard


@pytest.mark.crash
@pytest.mark.timeout(600)
async def test_three_hundred_clients_hear_a_hundred_events_a_second_each_once_and_in_order(
    open_house: Any, settings: Any
) -> None:
    clients, events = 300, 500
    async with Retoma(settings=settings, pipelines=[idle]) as app:
        batch = await app.batch(idle, range(events), name="many")
        url = (await asyncio.to_thread(open_house)).url
        last = batch.event_seq + events  # each cancelled job is one event, but for the last, which is two
        hearing = [asyncio.create_task(client(url, batch.id, last)) for _ in range(clients)]
        for job in reversed(await app.jobs.find(pipeline="idle", limit=events)):
            await app.jobs.cancel(job.id)
            await asyncio.sleep(0.005)
        heard = await asyncio.gather(*hearing)

    assert len(heard) == clients
    assert all(each == list(range(1, last + 1)) for each in heard)
