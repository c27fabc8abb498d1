"""A part of a file, as players and viewers ask for it; and the pieces of a long text."""

from pathlib import Path

import pytest

from retoma.pipelines import DOCUMENTS

from .archive import NOBODY, providers, sent, work
from .conftest import House, Open, code

TEXT = "".join(f"line {number:06d}\n" for number in range(200_000))  # 2.4 MB: more than one piece of the store


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return providers(tmp_path / "blobs")


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[DOCUMENTS], providers=given)


@pytest.fixture
def file(house: House) -> str:
    return f"/documents/{sent(house, 'long.txt', TEXT)}/file"


SIZE = len(TEXT)


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-99", 0, 100),
        ("bytes=1048570-1048585", 1048570, 1048586),
        ("bytes=2000000-", 2000000, SIZE),
        ("bytes=-5", SIZE - 5, SIZE),
        (f"bytes=-{SIZE * 2}", 0, SIZE),
        (f"bytes=10-{SIZE * 9}", 10, SIZE),
        ("Bytes = 3-5", 3, 6),
    ],
)
def test_a_part_of_a_file_comes_alone(house: House, file: str, asked: str, start: int, end: int) -> None:
    part = house.client.get(file, headers={"Range": asked})

    assert part.status_code == 206
    assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert int(part.headers["content-length"]) == end - start
    assert part.text == TEXT[start:end]


@pytest.mark.parametrize("asked", [f"bytes={SIZE}-", f"bytes={SIZE + 5}-{SIZE + 9}", "bytes=-0"])
def test_a_part_that_is_not_there_is_416_with_the_size(house: House, file: str, asked: str) -> None:
    refused = house.client.get(file, headers={"Range": asked})

    assert code(refused) == (416, "range_not_satisfiable")
    assert refused.headers["content-range"] == f"bytes */{SIZE}"


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,5-6", "lines=1-2", "bytes=5-2", "bytes=x-", "bytes=-", "bytes", "bytes=²-"]
)
def test_what_cannot_be_read_as_one_range_gives_the_whole(house: House, file: str, asked: str) -> None:
    whole = house.client.get(file, headers=[(b"range", asked.encode("latin-1", "replace"))])

    assert (whole.status_code, len(whole.content)) == (200, SIZE)
    assert whole.headers["accept-ranges"] == "bytes"


def test_a_part_of_another_file_is_not_mixed_in(house: House, file: str) -> None:
    tag = house.client.get(file).headers["etag"]
    asked = {"Range": "bytes=0-9"}

    same = house.client.get(file, headers={**asked, "If-Range": tag})
    other = house.client.get(file, headers={**asked, "If-Range": '"other"'})
    weak = house.client.get(file, headers={**asked, "If-Range": f"W/{tag}"})

    assert [each.status_code for each in (same, other, weak)] == [206, 200, 200]


def test_head_tells_the_size_and_sends_nothing(house: House, file: str) -> None:
    whole = house.client.head(file)
    part = house.client.head(file, headers={"Range": "bytes=0-9"})

    assert (whole.status_code, whole.headers["content-length"], whole.content) == (200, str(SIZE), b"")
    assert (part.status_code, part.headers["content-length"], part.content) == (206, "10", b"")


def test_the_pieces_of_a_text_come_a_page_at_a_time(house: House, given: dict[type, object]) -> None:
    id = sent(
        house, "lines.txt", "\n\n".join(f"CLÁUSULA {number}\nO item {number} vale." * 20 for number in range(120))
    )
    work(house, given)

    whole = house.client.get(f"/documents/{id}").json()
    cursor, pieces = whole["chunks_next"], list(whole["chunks"])
    assert len(pieces) == 50
    while cursor:
        page = house.client.get(f"/documents/{id}/chunks", params={"cursor": cursor, "limit": 30}).json()
        assert len(page["chunks"]) <= 30
        pieces += page["chunks"]
        cursor = page["next"]

    assert [each["place"] for each in pieces] == list(range(len(pieces)))
    assert pieces == house.client.get(f"/documents/{id}/chunks?limit=200").json()["chunks"][: len(pieces)]
    assert code(house.client.get(f"/documents/{NOBODY}/chunks")) == (404, "not_found")


@pytest.mark.parametrize("path", ["/documents/search", "/documents/status"])
def test_what_is_no_document_is_not_removed_by_that_name(house: House, path: str) -> None:
    refused = house.client.delete(path)

    assert (code(refused), refused.headers["allow"]) == ((405, "method_not_allowed"), "GET, HEAD, OPTIONS")


def test_a_page_of_another_site_may_not_search(house: House) -> None:
    sent(house)
    foreign = {"Sec-Fetch-Site": "cross-site"}

    refused = house.client.get("/documents/search?q=contrato", headers=foreign)

    assert code(refused) == (403, "cross_site_blocked")
    assert (
        house.client.get("/documents/search?q=contrato", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    )
    assert house.client.get("/documents", headers=foreign).status_code == 200
