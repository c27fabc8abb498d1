"""retoma operation, errors and search: what they print, and what they change."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from retoma.app.loader import find_app
from retoma.testing import drain

from .conftest import PROGRAM, Run


@pytest.fixture
def failures(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Two jobs failed with errors that are equal but for a name."""
    monkeypatch.setenv("RETOMA_APP", PROGRAM)
    monkeypatch.delitem(sys.modules, "cli_program", raising=False)
    for number in ("1", "2"):
        run("enqueue", "stumble", f'"{number}.pdf"', "--key", f"papers/{number}.pdf")
    asyncio.run(drain(find_app(PROGRAM)))
    return run


def test_errors_come_in_groups_and_a_group_is_tried_again(failures: Run) -> None:
    [group] = json.loads(failures("errors", "--json").stdout)
    table = failures("errors")

    looked = failures("operation", "run", "retry", "--fingerprint", group["fingerprint"], "--dry-run", "--json")
    done = failures("operation", "run", "retry", "--fingerprint", group["fingerprint"], "--yes", "--json")

    assert (group["jobs"], "cannot read" in table.stdout) == (2, True)
    assert json.loads(looked.stdout)["jobs"] == 2
    assert json.loads(done.stdout)["done"] == 2
    states = {each["state"] for each in json.loads(failures("job", "list", "--json").stdout)}
    assert states == {"queued"}


def test_a_dry_run_and_a_no_change_nothing(failures: Run) -> None:
    told = failures("operation", "run", "retry", "--state", "failed", "--dry-run")
    refused = failures("operation", "run", "retry", "--state", "failed", input="n\n")

    assert (told.exit_code, "papers/1.pdf" in told.stdout) == (0, True)
    assert refused.exit_code != 0
    assert json.loads(failures("operation", "list", "--json").stdout) == []
    assert {each["state"] for each in json.loads(failures("job", "list", "--json").stdout)} == {"failed"}


def test_an_operation_is_listed_shown_and_not_found(failures: Run) -> None:
    id = failures("operation", "run", "retry", "--state", "failed", "--yes").stdout.split("\t")[0]

    listed, shown = failures("operation", "list"), failures("operation", "show", id, "--json")
    nowhere = failures("operation", "show", "999999999")

    assert "retry" in listed.stdout
    assert json.loads(shown.stdout)["id"] == int(id)
    assert nowhere.exit_code == 3


def test_search_finds_a_job_by_its_id_its_key_and_the_name_of_its_file(failures: Run) -> None:
    by_id, by_key, by_file, nothing = (
        json.loads(failures("search", text, "--json").stdout) for text in ("1", "papers/2.pdf", "2.pdf", "nowhere")
    )

    assert 1 in [each["id"] for each in by_id]
    assert [each["id"] for each in by_key] == [each["id"] for each in by_file] == [2]
    assert nothing == []
    assert failures("search", " ").exit_code == 2


def test_a_dead_letter_is_discarded_listed_apart_and_reinstated(failures: Run) -> None:
    gone = failures("job", "discard", "1", "--reason", "a scan of nothing")
    letters = json.loads(failures("job", "list", "--dead-letters", "--json").stdout)
    settled = json.loads(failures("job", "list", "--discarded", "--json").stdout)
    refused = failures("job", "retry", "1")
    back = failures("job", "reinstate", "1")

    assert (gone.stdout, back.stdout) == ("1\tfailed\n", "1\tfailed\n")
    assert ([each["id"] for each in letters], [each["id"] for each in settled]) == ([2], [1])
    assert (refused.exit_code, "retoma job reinstate 1" in refused.stderr) == (4, True)
    done = failures("operation", "run", "discard", "--pipeline", "stumble", "--yes", "--json")
    assert json.loads(done.stdout)["done"] == 2
    assert failures("job", "discard", "99").exit_code == 3
