"""Where the database is: what an address may say, and what is never repeated of it."""

from urllib.parse import urlsplit

import pytest

from retoma import Retoma, Run, Settings, pipeline
from retoma import sync as blocking
from retoma.errors import DatabaseError, DatabaseUnreachable
from retoma.postgres.migrate import status
from retoma.postgres.url import checked, place


@pipeline("note")
async def note(text: str, _run: Run) -> str:
    return text


PLACES = {
    "postgresql://me:secret@host:5433/db": "host:5433/db",
    "postgres://host/db": "host:5432/db",
    "postgresql:///db": "localhost:5432/db",
    "postgresql://me:secret@host": "host:5432",
    "postgresql://me:secret@a:1,b:2/db": "a:1,b:2/db",
    "postgresql://me:secret@a,b/db?target_session_attrs=read-write": "a:5432,b:5432/db",
    "postgresql://me:secret@[::1]:5433/db": "::1:5433/db",
    "postgresql://me:secret@/db?host=one,two&port=6432": "one:6432,two:6432/db",
    "postgresql://me:p%2Fw%40x@host/db": "host:5432/db",
}


@pytest.mark.parametrize("url", PLACES)
def test_an_address_is_told_without_user_and_password(url: str) -> None:
    assert checked(url) == url
    assert place(url) == PLACES[url]


MALFORMED = {
    "mysql://me:secret@host/db": "does not begin with postgresql://",
    "postgresql://me:secret@host:port/db": "a host, a port or an option is malformed",
    "postgresql://me:secret@a:1,b:two/db": "a host, a port or an option is malformed",
    "postgresql://me:secret@[::1/db": "a host, a port or an option is malformed",
    "postgresql://me:secret@host/db?nonsense=1": "a host, a port or an option is malformed",
    "postgresql://me:sec/ret@host/db": "an @ stands behind the host",
    "postgresql://me:sec%ret@host/db": "a % in the password",
}


@pytest.mark.parametrize("url", MALFORMED)
def test_an_address_that_cannot_be_read_is_refused_and_none_of_it_is_repeated(url: str) -> None:
    with pytest.raises(DatabaseError, match=MALFORMED[url]) as refused:
        checked(url)
    assert "sec" not in str(refused.value)
    assert place(url) == "(an address that cannot be read)"


async def test_several_hosts_may_be_named_and_the_one_that_answers_is_used(database_url: str) -> None:
    here = urlsplit(database_url)
    login, _, host = here.netloc.rpartition("@")
    several = here._replace(netloc=f"{login}@127.0.0.1:1,{host}", query="target_session_attrs=read-write").geturl()
    async with Retoma(several, pipelines=[note]) as app:
        receipt = await app.enqueue(note, "a")
    with blocking.Retoma(several, pipelines=[note]) as same:
        assert same.jobs.get(receipt.id).state == "queued"

    assert status(several, Settings.load()).ready


async def test_when_none_of_several_hosts_answers_all_are_named(database_url: str) -> None:
    password = urlsplit(database_url).password
    with pytest.raises(DatabaseUnreachable, match=r"The database at 127\.0\.0\.1:1,127\.0\.0\.1:2/db") as told:
        await Retoma(f"postgresql://me:{password}@127.0.0.1:1,127.0.0.1:2/db").open()
    assert password is not None
    assert password not in str(told.value)
