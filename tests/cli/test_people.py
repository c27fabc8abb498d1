"""Accounts and webhooks by command: passwords come by standard input, and every change is in the audit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .conftest import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from webhook_receiver import receiving

PASSWORD = "three words are enough\n"


def test_an_account_is_added_changed_and_removed(run: Run) -> None:
    assert run("user", "add", "ana", "--role", "reader", input=PASSWORD).exit_code == 0
    assert run("user", "role", "ana", "operator").exit_code == 0
    assert run("user", "password", "ana", "--password-stdin", input="other words are enough\n").exit_code == 0
    assert run("user", "lock", "ana").exit_code == 0
    [found] = json.loads(run("user", "list", "--json").stdout)
    assert (found["name"], found["role"], found["locked_at"] is None) == ("ana", "operator", False)
    assert run("user", "unlock", "ana").exit_code == 0
    assert run("user", "remove", "ana").exit_code == 0

    assert json.loads(run("user", "list", "--json").stdout) == []
    rows = json.loads(run("audit", "list", "--object", f"user:{found['id']}", "--json").stdout)
    assert {row["action"] for row in rows} == {
        "user.add", "user.role", "user.password", "user.lock", "user.unlock", "user.remove",
    }  # fmt: skip
    assert "enough" not in json.dumps(rows)


def test_what_no_account_may_be_is_told_in_words(run: Run) -> None:
    weak = run("user", "add", "ana", "--role", "reader", input="brief\n")
    unknown = run("user", "lock", "eva")

    assert weak.exit_code != 0
    assert unknown.exit_code == 3


def test_a_webhook_is_added_tested_and_its_message_replayed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOMA_WEBHOOK_PRIVATE", "on")
    with receiving() as receiver:
        made = run("webhook", "add", receiver.url, "--kind", "batch.failed")
        assert made.stdout.startswith("whsec_")
        [endpoint] = json.loads(run("webhook", "list", "--json").stdout)
        assert run("webhook", "test", endpoint["id"]).exit_code == 0
        receiver.answer = lambda _: (500, {})
        assert run("webhook", "test", endpoint["id"]).exit_code == 1
        assert run("webhook", "rotate", endpoint["id"]).stdout.startswith("whsec_")
        for verb in ("disable", "enable"):
            assert run("webhook", verb, endpoint["id"]).exit_code == 0
        messages = json.loads(run("webhook", "deliveries", endpoint["id"], "--json").stdout)
        assert [each["state"] for each in messages] == ["pending", "delivered"]
        assert run("webhook", "replay", messages[1]["id"]).exit_code == 0
        assert run("webhook", "remove", endpoint["id"]).exit_code == 0
        assert len(receiver.ids) == 2
