"""contrib/: alerts that fire when they must and only then, and dashboards whose every query can be read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from retoma.telemetry import catalogue

ROOT = Path(__file__).parents[2]
RULES = ROOT / "contrib/prometheus/rules.yml"
TESTS = ROOT / "contrib/prometheus/rules_test.yml"
BOARDS = sorted((ROOT / "contrib/grafana").glob("*.json"))
METRIC = re.compile(r"\b((?:retoma|gen_ai)_[a-z_]+?)(?:_bucket|_sum|_count)?(?=[{\[)\s]|$)")


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool (Debian: prometheus) is not installed")
    return found


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [each for each in group["rules"] if "alert" in each]


def queries() -> Iterator[tuple[str, str]]:
    for board in BOARDS:
        for panel in json.loads(board.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                yield f"{board.stem}: {panel['title']}", target["expr"]


def test_every_alert_fires_on_its_figures_and_on_no_others(promtool: str) -> None:
    ran = subprocess.run(
        [promtool, "test", "rules", TESTS.name], cwd=TESTS.parent, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_is_tried_both_ways() -> None:
    tried: Counter[tuple[str, bool]] = Counter()
    for test in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]:
        for each in test["alert_rule_test"]:
            tried[each["alertname"], bool(each["exp_alerts"])] += 1

    assert tried.keys() == {(alert["alert"], fires) for alert in alerts() for fires in (True, False)}


def test_the_three_alerts_that_were_asked_for_first_have_their_limits() -> None:
    found = {
        alert["alert"]: (alert["expr"].strip().rpartition(" ")[2], alert["labels"]["severity"]) for alert in alerts()
    }

    assert found["HighStuckJobs"] == ("10", "warning")
    assert found["SlowProcessing"] == ("120", "warning")
    assert found["WorkerHealthCheck"] == ("900", "critical")


@pytest.mark.parametrize("page", ["docs/operate/runbooks.md", "docs/pt/alertas.md"])
def test_every_alert_has_a_runbook_in_both_languages(page: str) -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)

    names = [alert["alert"] for alert in alerts()]
    assert [name for name in names if name not in sections] == []
    assert [alert["annotations"]["runbook"] for alert in alerts()] == [
        f"docs/operate/runbooks.md#{name.lower()}" for name in names
    ]


def test_every_query_of_the_dashboards_can_be_read(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": query} for number, (_, query) in enumerate(queries())]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))

    ran = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(rules) > 30


def test_what_rules_and_dashboards_ask_for_is_measured() -> None:
    expressions = [(alert["alert"], alert["expr"]) for alert in alerts()] + list(queries())

    unknown = [
        (where, name)
        for where, query in expressions
        for name in METRIC.findall(_bare(query))
        if name not in catalogue.BY_NAME
    ]

    assert unknown == []


def _bare(query: str) -> str:
    """*query* without the names of labels."""
    return re.sub(r"\b(by|on) \([^()]*\)|\{[^{}]*\}", "", query)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_a_dashboard_asks_where_its_prometheus_is(board: Path) -> None:
    said = json.loads(board.read_text(encoding="utf-8"))

    assert said["uid"] == board.stem
    assert [each["name"] for each in said["templating"]["list"] if each["type"] == "datasource"] == ["source"]
    sources = {each["datasource"]["uid"] for panel in said["panels"] for each in [panel, *panel["targets"]]}
    assert sources == {"${source}"}
    assert len({panel["id"] for panel in said["panels"]}) == len(said["panels"])
