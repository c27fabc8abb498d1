"""retoma quotes: a list, the prices of its items, and each row that was not taken."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from .conftest import Command

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))
from pictures import png  # isort: skip - the images are those of the pipeline's own tests

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(600)

PROGRAM = f"{Path(__file__).parent / 'quotes_program.py'}:app"


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {"DATABASE_URL": database_url, "QUOTES_BILL": str(tmp_path / "bill.log"), "RETOMA_HEARTBEAT_SECONDS": "0.5"}


def finish(command: Command, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command to its end, however busy the machine is."""
    process = command.start(*args, **variables)
    out, err = process.communicate(timeout=220)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def test_a_list_is_priced_here_and_a_bad_row_is_told_with_its_line(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "lista.csv"
    file.write_text("codigo;descricao\n1;Mesa\n2;\n3;Fiat Uno Mille 2012\n", encoding="cp1252")

    done = finish(command, "quotes", "run", str(file), "--app", PROGRAM, **environment)
    shown = finish(command, "quotes", "show", "1", "--app", PROGRAM, **environment)
    listed = finish(command, "quotes", "show", "--app", PROGRAM, **environment)

    assert done.returncode == 8, done.stderr
    assert "line 3: The row has no description." in done.stderr
    assert "104.67" in done.stdout
    assert "21345.00" in done.stdout
    assert shown.returncode == 0, shown.stderr
    assert "a.com.br" in shown.stdout
    assert "Stage COMPLETED, 100 %, attempt 1." in shown.stderr
    assert listed.stdout.count("DONE") == 2


def test_a_list_that_is_left_to_workers_is_one_batch_when_it_is_sent_again(
    command: Command, environment: dict[str, str], tmp_path: Path, psql: psycopg.Connection
) -> None:
    file = tmp_path / "lista.csv"
    file.write_text("descricao\nMesa\nCadeira\n")
    words = ("quotes", "run", str(file), "--project", "Reavaliação", "--detach", "--app", PROGRAM)

    first, second = finish(command, *words, **environment), finish(command, *words, **environment)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout == second.stdout == "1\n"
    assert "goes on: 0 %" in second.stderr
    assert psql.execute("select count(*) from quotes.quote_requests").fetchone() == (2,)


def test_a_folder_of_photographs_is_a_batch_and_says_what_an_image_alone_needs(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "fotos"
    folder.mkdir()
    (folder / "4711.jpg").write_bytes(png())
    (folder / "notas.png").write_text("nada")
    environment |= {"RETOMA_HOME": str(tmp_path / "home"), "RETOMA_BROWSER": "none"}

    done = finish(command, "quotes", "run", str(folder), **environment)

    assert done.returncode == 8, done.stderr
    assert "line 2: This is no PNG, JPEG or WebP image." in done.stderr
    assert "4711: image_needs_model: " in done.stderr
    assert "RETOMA_CHAT" in done.stderr
    assert "ERROR" in done.stdout


def test_a_list_with_a_column_of_photographs_is_priced_by_its_words(
    command: Command, environment: dict[str, str], tmp_path: Path, psql: psycopg.Connection
) -> None:
    (tmp_path / "1.png").write_bytes(png())
    file = tmp_path / "lista.csv"
    file.write_text("descricao;image\nEstante de aço 6 prateleiras;1.png\nEstante;2.png\n", encoding="utf-8")
    environment |= {"RETOMA_HOME": str(tmp_path / "home"), "RETOMA_BROWSER": "none"}

    done = finish(command, "quotes", "run", str(file), **environment)

    assert done.returncode == 8, done.stderr
    assert "line 3: There is no image '2.png' beside the list." in done.stderr
    row = psql.execute("select status, input_kind, input_sha256 from quotes.quote_requests").fetchall()
    assert row == [("DONE", "image/png", hashlib.sha256(png()).hexdigest())]


def test_an_asset_is_valued_by_the_terms_of_its_project_and_a_planted_cent_breaks_its_report(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    environment |= {"RETOMA_HOME": str(tmp_path / "home"), "RETOMA_BROWSER": "none"}
    wanted, file = tmp_path / "terms.json", tmp_path / "lista.csv"
    wanted.write_text(json.dumps({"report": {"factors": {"weights": {"ec": "1", "pu": "0", "vuf": "0"}}}}))
    file.write_text(
        "descricao;conservacao;anos de uso;vida util restante\nEstante de aço 6 prateleiras;RUIM;12;1\n",
        encoding="utf-8",
    )

    made = finish(command, "quotes", "terms", "Bens", "--set", str(wanted), **environment)
    done = finish(command, "quotes", "run", str(file), "--project", "Bens", **environment)
    shown = finish(command, "quotes", "show", "1", **environment)
    told = tmp_path / "r.json"
    finish(command, "quotes", "export", "--quote", "1", "--to", str(told), "--close", **environment)
    holds = finish(command, "quotes", "verify", str(told), **environment)
    content = json.loads(told.read_text())
    worth = content["reports"][0]["valuation"]
    value = f"value {worth['value']} = market price {worth['market']} × factor 0.4000"
    worth["value"] = str(Decimal(worth["value"]) + Decimal("0.01"))
    told.write_text(json.dumps(content))
    breaks = finish(command, "quotes", "verify", str(told), **environment)

    assert "Version 1" in made.stderr, made.stderr
    assert json.loads(made.stdout)["report"]["factors"]["weights"]["ec"] == "1"
    assert done.returncode == 0, done.stderr
    assert value in shown.stdout
    assert "remaining life" in shown.stdout
    assert holds.returncode == 0, holds.stdout
    assert (breaks.returncode, "reports[1].valuation.value" in breaks.stdout) == (8, True), breaks.stdout


def test_a_table_of_an_index_is_loaded_once_and_listed_with_its_source_and_hash(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    file, wrong = tmp_path / "ipca.csv", tmp_path / "wrong.csv"
    text = (
        "# index: IPCA\n# source: a made-up example\n# dated: 2026-10-09\nmonth,percent\n2026-08,0.12\n2026-09,0.31\n"
    )
    file.write_text(text)
    wrong.write_text(text.replace("2026-08", "2026-07"))

    first, again, refused, listed = (
        finish(command, "quotes", "indices", *words, "--app", PROGRAM, **environment)
        for words in (("load", str(file)), ("load", str(file)), ("load", str(wrong)), ("list",))
    )

    sha256 = hashlib.sha256(text.encode()).hexdigest()
    assert first.stdout == again.stdout == f"{sha256}\n", first.stderr
    assert "2026-08 to 2026-09, dated 2026-10-09: loaded." in first.stderr
    assert "it was loaded before" in again.stderr
    assert (refused.returncode, "2026-08 is missing" in refused.stderr) == (2, True), refused.stderr
    assert listed.stdout.count(sha256) == 1
    assert "a made-up example" in listed.stdout


def test_a_file_that_is_no_list_is_refused_and_leaves_nothing(
    command: Command, environment: dict[str, str], tmp_path: Path, psql: psycopg.Connection
) -> None:
    file = tmp_path / "lista.csv"
    file.write_text("a;b\n1;2\n")

    done = finish(command, "quotes", "run", str(file), "--app", PROGRAM, **environment)

    assert done.returncode == 2, done.stderr
    assert "No column holds descriptions" in done.stderr
    assert psql.execute("select count(*) from quotes.quote_requests").fetchone() == (0,)


def test_a_list_without_a_good_row_tells_each_bad_one_and_leaves_nothing(
    command: Command, environment: dict[str, str], tmp_path: Path, psql: psycopg.Connection
) -> None:
    file = tmp_path / "lista.csv"
    file.write_text("descricao;conservacao;vida restante\nMesa;BOM;3\nCadeira;RUIM;1\n")

    done = finish(command, "quotes", "run", str(file), "--app", PROGRAM, **environment)

    assert done.returncode == 2, done.stderr
    assert "2 rows were not taken:" in done.stderr
    assert "line 2: The value of an asset needs conservation, years_used, years_left" in done.stderr
    assert "The list has no items." in done.stderr
    assert psql.execute("select count(*) from quotes.quote_requests").fetchone() == (0,)


def test_the_ready_app_prices_a_list_without_a_key_and_its_report_is_verified_to_the_cent(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "lista.csv"
    file.write_text("descricao\nEstante de aço 6 prateleiras\n", encoding="utf-8")

    environment |= {"RETOMA_HOME": str(tmp_path / "home"), "RETOMA_BROWSER": "none"}

    done = finish(command, "quotes", "run", str(file), **environment)
    pdf, told = tmp_path / "r.pdf", tmp_path / "r.json"
    closed = finish(command, "quotes", "export", "--quote", "1", "--to", str(pdf), "--close", **environment)
    finish(command, "quotes", "export", "--quote", "1", "--to", str(told), **environment)
    holds = finish(command, "quotes", "verify", str(pdf), **environment)
    content = json.loads(told.read_text())
    content["reports"][0]["result"] = str(Decimal(content["reports"][0]["result"]) + Decimal("0.01"))
    told.write_text(json.dumps(content))
    breaks = finish(command, "quotes", "verify", str(told), **environment)

    assert done.returncode == 0, done.stderr
    assert "are invented" in done.stderr
    assert "DONE" in done.stdout
    assert closed.returncode == 0, closed.stderr
    assert holds.returncode == 0, holds.stdout + holds.stderr
    assert (breaks.returncode, "reports[1].result" in breaks.stdout) == (8, True), breaks.stdout


def test_the_price_bank_is_listed_priced_by_hand_and_decided(
    command: Command, environment: dict[str, str], psql: psycopg.Connection
) -> None:
    finish(command, "db", "upgrade", **environment)
    psql.execute(
        "insert into quotes.price_bank (codigo_fipe, ano, marca, modelo, vehicle_type, words, price) "
        "values ('001004-9', 2012, 'Fiat', 'Uno', 'cars', '{fiat,uno}', 20000)"
    )

    bank = ("quotes", "bank")
    listed = finish(command, *bank, "list", "--app", PROGRAM, **environment)
    mode = finish(command, *bank, "mode", "1", "ipca", "--app", PROGRAM, **environment)
    priced = finish(command, *bank, "price", "1", "21.345,50", "--reason", "Laudo 12", "--app", PROGRAM, **environment)
    begun = finish(command, *bank, "update", "1", "--app", PROGRAM, **environment)
    history = finish(command, *bank, "history", "1", "--app", PROGRAM, **environment)
    late = finish(command, *bank, "decide", "1", "refuse", "--reason", "Tarde", "--app", PROGRAM, **environment)

    assert "Fiat Uno" in listed.stdout, listed.stderr
    assert (mode.stdout.strip(), priced.stdout.strip()) == ("1 IPCA", "1 21345.50"), mode.stderr + priced.stderr
    assert "1 vehicles" in begun.stderr
    assert "Laudo 12" in history.stdout
    assert late.returncode != 0
    assert "was decided already" in late.stderr


@pytest.mark.timeout(900)
def test_a_pilot_prices_some_first_and_the_same_command_goes_on(
    command: Command, environment: dict[str, str], tmp_path: Path, psql: psycopg.Connection
) -> None:
    file = tmp_path / "lista.csv"
    file.write_text("codigo;descricao\n" + "".join(f"{n};Mesa {n}\n" for n in range(1, 7)), encoding="utf-8")

    tried = finish(command, "quotes", "run", str(file), "--pilot", "3", "--app", PROGRAM, **environment)
    some = psql.execute("select count(*) from retoma.jobs where finished_at is not null").fetchone()
    again = finish(command, "quotes", "run", str(file), "--app", PROGRAM, **environment)

    assert tried.returncode == 0, tried.stderr
    assert "3 of 3 jobs ended" in tried.stdout
    assert some == (3,)
    assert again.returncode in (0, 8), again.stderr
    assert psql.execute("select count(*) from retoma.jobs where state = 'queued'").fetchone() == (0,)
