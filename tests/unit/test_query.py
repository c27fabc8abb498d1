"""A query is a value; its text can be numbered for drivers that want that."""

from pathlib import Path

import pytest

from retoma.store.query import Query, array, load, numbered


def test_parameters_are_numbered_in_the_order_of_their_first_use() -> None:
    text, names = numbered("select %(b)s::int, %(a)s::text, %(b)s::int where x like '%%y'")

    assert text == "select $1::int, $2::text, $1::int where x like '%y'"
    assert names == ("b", "a")


def test_a_text_without_parameters_stays_as_it_is() -> None:
    assert numbered("select 1") == ("select 1", ())


def test_ten_and_more_parameters_keep_their_numbers() -> None:
    sql = ", ".join(f"%({letter})s" for letter in "abcdefghijkl")
    text, names = numbered(f"select {sql}, %(a)s")

    assert text.endswith("$10, $11, $12, $1")
    assert names == tuple("abcdefghijkl")


def test_blocks_are_found_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "queries_of_a_test"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "things.sql").write_text(
        "-- About things.\n\n-- name: one\n-- Why it is safe.\nselect 1;\n\n-- name: two_more\nselect 2;\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert load("queries_of_a_test", "things.sql") == {
        "one": "-- Why it is safe.\nselect 1;",
        "two_more": "select 2;",
    }


def test_a_query_is_a_value() -> None:
    one = Query("select %(a)s", int, {"a": 1})

    assert one == Query("select %(a)s", int, {"a": 1})
    assert one.row("3") == 3
    assert Query("select 1", int).params == {}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "{}"),
        ([1, -2, None], "{1,-2,NULL}"),
        ([1.5, 1e-9], "{1.5,1e-09}"),
        (["a", "", None, "NULL"], '{"a","",NULL,"NULL"}'),
        (['"', "\\", "a,b", "{}"], '{"\\"","\\\\","a,b","{}"}'),
    ],
)
def test_an_array_is_written_as_postgresql_reads_it(values: list[object], text: str) -> None:
    assert array(values) == text
