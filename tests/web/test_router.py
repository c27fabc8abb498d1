"""The API in somebody's own application: under their prefix, beside their routes, in their hands."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI, Request

from retoma import Retoma
from retoma.web import router

from .conftest import PIPELINES, code, hosting


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, str]]:
    yield {"theirs": "their own state"}


@pytest.fixture
def client(database_url: str) -> Iterator[httpx2.Client]:
    theirs = FastAPI(lifespan=lifespan)
    theirs.include_router(router(Retoma(database_url, pipelines=PIPELINES)), prefix="/their/own")

    @theirs.get("/jobs/{id}")
    async def get_job(id: int, request: Request) -> dict[str, object]:
        return {"theirs": id, "state": request.state.theirs}

    with hosting(theirs) as url, httpx2.Client(base_url=url, timeout=240) as client:
        yield client


def test_the_routes_stand_under_the_prefix_and_their_addresses_say_so(client: httpx2.Client) -> None:
    queued = client.post("/their/own/jobs", json={"pipeline": "double", "input": 1})
    client.post("/their/own/jobs", json={"pipeline": "double", "input": 2})

    assert queued.headers["location"] == queued.json()["status_url"] == "/their/own/jobs/1"
    assert client.get(queued.headers["location"]).json()["input"] == 1
    assert client.get("/their/own/jobs?limit=1").headers["link"].startswith("</their/own/jobs?limit=1&cursor=")


def test_our_conventions_hold_in_our_routes_and_theirs_are_left_alone(client: httpx2.Client) -> None:
    ours = client.get("/their/own/jobs/404")
    theirs = client.get("/jobs/7")

    assert code(ours) == (404, "not_found")
    assert code(client.get("/their/own/jobs", headers={"Host": "evil.example"})) == (421, "host_not_allowed")
    assert code(client.post("/their/own/jobs", content=b"{")) == (415, "unsupported_media_type")
    assert theirs.json() == {"theirs": 7, "state": "their own state"}
    assert "x-correlation-id" not in theirs.headers
    assert client.get("/nowhere").json() == {"detail": "Not Found"}


def test_the_routes_are_in_their_openapi_with_every_shape_they_refer_to(client: httpx2.Client) -> None:
    text = client.get("/openapi.json").text
    schema = httpx2.Response(200, text=text).json()

    assert schema["paths"]["/their/own/jobs/{id}"]["get"]["operationId"] == "getJob"
    referred = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert "Problem" in referred
    assert referred <= schema["components"]["schemas"].keys()
    assert client.get("/docs").status_code == 200
