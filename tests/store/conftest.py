"""One migrated database for the whole room, emptied before each test, on a server that seems to have run for years."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # where the tests of this room find the hand they write with

from store_hand import EMPTY, Hand

# A sweep gives every worker one lease of grace after the server has started, and the server of a test run has
# just started. This schema comes before pg_catalog, so the SQL under test finds a start that is long ago.
YEARS = """
create schema years;
create function years.pg_postmaster_start_time() returns timestamptz
    language sql stable return timestamptz '2000-01-01 00:00:00Z';
"""


@pytest.fixture(scope="session")
def room_url(server: str, template: str, worker_id_of_run: str) -> Iterator[str]:
    name = f"store_{worker_id_of_run}"
    url = urlsplit(server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)")
        connection.execute(f"create database {name} template {template}")
        connection.execute(f"alter database {name} set search_path = years, pg_catalog, public")
        with psycopg.connect(url, autocommit=True) as room:
            room.execute(YEARS)
        yield url
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def broom(room_url: str) -> Iterator[psycopg.Connection]:
    """The connection that empties the room. It is kept, because a new one would have to learn all the tables anew."""
    with psycopg.connect(room_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def room(room_url: str, broom: psycopg.Connection) -> str:
    """The address of the room's database, empty."""
    broom.execute(EMPTY)
    return room_url


@pytest.fixture
def hand(room: str) -> Iterator[Callable[..., Hand]]:
    """Makes hands: each is a connection of its own, set as a worker's are unless told otherwise."""
    made: list[Hand] = []

    def make(*, hot: bool = True) -> Hand:
        made.append(Hand(room, hot=hot))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def db(hand: Callable[..., Hand]) -> Hand:
    """The one hand that most tests need."""
    return hand()
