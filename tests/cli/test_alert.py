"""retoma alert: what is wrong, in either language, and who looks after it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import programs
import psycopg
import pytest

ALERT = (
    "insert into retoma.alerts (rule, subject, severity, facts) values "
    """('queue_late', 'mail', 'warning', '{"queue": "mail", "due": 3, "seconds": 700}') returning id"""
)


def run(url: str, folder: Path, *words: str, lang: str = "C.UTF-8") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DATABASE_URL": url, "RETOMA_HOME": str(folder), "LANG": lang, "COLUMNS": "200"}
    return programs.run(["-m", "retoma", "alert", *words], environment=env)


@pytest.mark.timeout(600)
def test_an_alert_is_listed_acknowledged_and_in_the_audit(
    database_url: str, psql: psycopg.Connection, tmp_path: Path
) -> None:
    row = psql.execute(ALERT).fetchone()
    psql.commit()
    assert row is not None

    listed = json.loads(run(database_url, tmp_path, "list", "--json").stdout)
    done = run(database_url, tmp_path, "ack", str(row[0]), "--note", "I look")
    told = json.loads(run(database_url, tmp_path, "list", "--json").stdout)
    missing = run(database_url, tmp_path, "ack", "999", lang="pt_BR.UTF-8")

    assert [(each["id"], each["acknowledged_at"]) for each in listed] == [(row[0], None)]
    assert done.returncode == 0, done.stderr
    assert f"Alert {row[0]} is acknowledged by " in done.stderr
    assert (told[0]["note"], told[0]["acknowledged_by"] is not None) == ("I look", True)
    assert missing.returncode != 0
    audited = psql.execute("select action, object_id from retoma.audit order by id desc limit 1").fetchone()
    assert audited == ("alert.ack", str(row[0]))
