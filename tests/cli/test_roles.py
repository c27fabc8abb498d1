"""The four roles: each does its part of the work, in real processes, and nothing beyond it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import programs
import psycopg
import pytest

import retoma.sync
from retoma import Settings
from retoma.postgres import migrate
from retoma.postgres.roles import Roles

from .cli_program import double
from .conftest import Command, here

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(600)

PROGRAM = f"{Path(__file__).parent / 'roles_program.py'}:app"
QUICK = {"RETOMA_HEARTBEAT_SECONDS": "0.5", "RETOMA_LEASE_SECONDS": "4", "RETOMA_POLL_SECONDS": "0.2"}
# Nobody is sent away because the machine is busy: a first search loads the embedder.
PATIENT = {"RETOMA_WEB_DEADLINE_SECONDS": "120", "RETOMA_WEB_WAIT_SECONDS": "120"}
LETTER = b"Contrato de aluguel. Clausula primeira: do objeto. O locador da em aluguel a casa. Fica eleito o foro."
UUID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
REFUSED = psycopg.errors.InsufficientPrivilege


def until(ready: Callable[[], Any], seconds: float = 150.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)
    return found


class Staff:
    """Each part of the house in processes of its own, with its own role."""

    def __init__(self, command: Command, parts: dict[str, str], home: Path) -> None:
        self.command, self.parts = command, parts
        self.go_on = home / "go-on"
        self.log = home / "log"
        self.admin = psycopg.connect(parts["admin"], autocommit=True)

    def as_(self, part: str, *args: str) -> subprocess.CompletedProcess[str]:
        return self.command(*args, DATABASE_URL=self.parts[part], RETOMA_APP=PROGRAM, GO_ON=str(self.go_on))

    def done(self, part: str, *args: str) -> str:
        ran = self.as_(part, *args)
        assert ran.returncode == 0, f"{args}: {ran.stderr}"
        return ran.stdout

    def start(self, part: str, *args: str) -> programs.Started:
        """A process whose log is kept; where it writes cannot fill up."""
        with self.log.open("a") as log:
            process = programs.start(
                ["-m", "retoma", *args],
                environment=self.command.environment
                | QUICK
                | PATIENT
                | {"DATABASE_URL": self.parts[part], "RETOMA_APP": PROGRAM, "GO_ON": str(self.go_on)},
                log=log,
            )
        self.command.started.append(process)
        return process

    def serve(self) -> httpx2.Client:
        process = self.start("web", "serve", "--port", "0")
        key = self.done("owner", "key", "create", "tests", "--scope", "admin").strip()

        def address() -> str | None:
            assert process.poll() is None, self.log.read_text()
            found = re.search(r"The API is at (http://\S+)/api/v1", self.log.read_text())
            return found[1] if found else None

        return httpx2.Client(base_url=until(address), headers={"Authorization": f"Bearer {key}"}, timeout=60)

    def value(self, sql: str) -> Any:
        row = self.admin.execute(sql.encode()).fetchone()
        assert row
        return row[0]

    def states(self, *ids: int) -> list[str]:
        rows = self.admin.execute("select state from retoma.jobs where id = any (%s) order by id", [list(ids)])
        return [state for (state,) in rows.fetchall()]

    def complaints(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if "permission denied" in line]


@pytest.fixture
def staff(command: Command, parts: dict[str, str], tmp_path: Path) -> Iterator[Staff]:
    staff = Staff(command, parts, tmp_path)
    staff.log.touch()
    yield staff
    for process in command.started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=240)
    staff.admin.close()


def test_a_worker_does_all_of_its_work_as_the_role_worker(staff: Staff) -> None:
    queued = [("double", "21"), ("stumble", '"x"'), ("inquire", '"what?"'), ("hang", '"x"')]
    ids = [int(staff.done("web", "enqueue", name, input)) for name, input in queued]

    first = staff.start("worker", "worker")
    until(lambda: staff.states(*ids) == ["completed", "failed", "completed", "running"])
    until(lambda: staff.value("select count(*) from retoma.checkpoints where step = 'begin'") == 1)
    staff.go_on.touch()
    first.kill()
    first.wait()
    staff.start("worker", "worker")
    until(lambda: staff.states(ids[3]) == ["completed"])
    staff.admin.execute(
        "update retoma.jobs set finished_at = finished_at - interval '90 days', created_at = created_at - interval"
        " '90 days' where id = any (%s)",
        [ids],
    )
    for name in ("retoma.recover", "retoma.clean-up", "retoma.prune"):
        staff.done("web", "schedule", "run", name)
    chores = "select count(*) from retoma.jobs where queue = 'retoma' and state = 'completed'"
    until(lambda: staff.value(chores) >= 3)

    assert staff.states(*ids) == []
    assert staff.value("select count(*) from retoma.calls where state = 'answered'") == 1
    assert staff.value("select count(*) from retoma.jobs where state = 'failed'") == 0
    assert staff.complaints() == []


def test_a_watchdog_makes_its_rounds_as_the_role_worker(staff: Staff) -> None:
    staff.done("worker", "watchdog", "--once")


class Walk:
    """A happy path through every resource: requests that must succeed."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self.answered: list[str] = []

    def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        answered = self.client.request(method, path, **options)
        assert answered.status_code < 400, f"{method} {path}: {answered.status_code} {answered.text}"
        self.answered.append(f"{method} {path}")
        return answered

    def see(self, *paths: str, **params: str) -> None:
        for path in paths:
            self.send("GET", path, params=params, headers={"Accept": "application/json"})

    def change(self, path: str, json: Any = None, method: str = "POST") -> Any:
        answered = self.send(method, path, **({} if json is None else {"json": json}))
        return answered.json() if answered.content else None

    def become(self, path: str, *states: str) -> None:
        """Wait until what *path* shows is in one of *states*."""

        def there() -> bool:
            found = self.send("GET", path).json()
            return str(found.get("state") or found.get("status")).lower() in states

        until(there)

    def everything(self) -> None:
        self.see("/livez", "/readyz")
        for path in ("/", "/documents", "/classificador/"):
            self.send("GET", path, headers={"Accept": "text/html"}, follow_redirects=True)
        for part in (self.jobs, self.batches, self.settings, self.documents, self.texts, self.classifier):
            part()

    def jobs(self) -> None:
        api = "/api/v1/jobs"
        done, failed, waits, other = (
            self.change(api, {"pipeline": name, "input": input})["id"]
            for name, input in [("double", 4), ("stumble", "x"), ("wait", "x"), ("wait", "y")]
        )
        self.become(f"{api}/{done}", "completed")
        self.see(api, f"{api}/{done}", f"{api}/{done}/attempts", f"{api}/{done}/checkpoints")
        self.change(f"{api}/{waits}/signal", {"name": "answer", "value": "yes"})
        self.become(f"{api}/{waits}", "completed")
        for verb in ("retry", "restart"):
            self.become(f"{api}/{failed}", "failed")
            self.change(f"{api}/{failed}/{verb}")
        self.change(f"{api}/{other}/cancel")

    def batches(self) -> None:
        api = "/api/v1/batches"
        once = {"pipeline": "double", "name": "once", "jobs": [{"input": 1}]}
        for _ in range(2):
            self.send("POST", api, json=once, headers={"Idempotency-Key": "once"})
        some = f"{api}/{self.change(api, {'pipeline': 'stumble', 'name': 'some'})['id']}"
        self.change(f"{some}/jobs", {"jobs": [{"input": "a", "key": "a"}, {"input": "b", "key": "b"}]})
        self.change(f"{some}/seal", {"expected": 2})
        for verb in ("retry-failed", "restart"):
            self.become(some, "completed")
            self.change(f"{some}/{verb}")
        self.become(some, "completed")
        looks = ("operations", "progress", "steps", "errors", "plan", "explanation", "events")
        self.see(api, some, *(f"{some}/{look}" for look in looks))
        self.change(some, {"name": "other"}, "PATCH")
        held = self.change(api, {"pipeline": "wait", "name": "held", "jobs": [{"input": "a"}]})["id"]
        for verb in ("pause", "resume", "cancel"):
            self.change(f"{api}/{held}/{verb}")

    def settings(self) -> None:
        api = "/api/v1"
        self.change(f"{api}/queues/double/pause", {"reason": "a look"})
        self.change(f"{api}/queues/double/resume")
        self.change(f"{api}/queues/double/weight", {"weight": 2})
        self.change(f"{api}/queues/double/limit", {"lane": "a", "at_once": 1})
        for verb in ("run", "pause", "resume"):
            self.change(f"{api}/schedules/retoma.recover/{verb}")
        price = {"provider": "house", "model": "clerk", "input": "1", "output": "2"}
        self.change(f"{api}/prices", price)
        self.change(f"{api}/prices", price | {"tier": "flex"})
        self.change(f"{api}/limits/house", {"requests": 1000}, "PUT")
        asked = self.change(f"{api}/jobs", {"pipeline": "inquire", "input": "what?"})["id"]
        self.become(f"{api}/jobs/{asked}", "completed")
        self.change(f"{api}/calls/reprice")
        nouns = ("queues", "schedules", "workers", "calls", "spend", "prices", "limits", "system/health")
        self.see(*(f"{api}/{noun}" for noun in nouns))

    def documents(self) -> None:
        api = "/documents"
        sent = self.send("POST", api, files=[("files", ("a.txt", LETTER))]).json()
        id = next(value for value in re.findall(UUID, json.dumps(sent)))
        self.become(f"{api}/{id}/status", "completed")
        self.see(api, f"{api}/{id}", f"{api}/{id}/file")
        self.see(f"{api}/search", q="aluguel")
        self.change(f"{api}/{id}/reprocess")
        self.become(f"{api}/{id}/status", "completed")
        self.send("DELETE", f"{api}/{id}")

    def texts(self) -> None:
        api, where = "/api/v1/embeddings", {"organisation": "o", "site": "s"}
        text = where | {"source_type": "page", "source_id": "1", "content": "A text about rent."}
        first = self.change(api, {"texts": [text]})["texts"][0]["job_id"]
        self.become(f"/api/v1/jobs/{first}", "completed")
        second = self.change(api, {"texts": [text | {"content": "Another text about rent."}]})["texts"][0]["job_id"]
        self.become(f"/api/v1/jobs/{second}", "completed")
        self.see(api, f"{api}/sources/page/1", **where)
        self.see(f"{api}/search", **where, q="rent")

    def classifier(self) -> None:
        api = "/classificador/api"
        prompt = {"nome": "p", "conteudo": "- contrato: um contrato\n- ata: uma ata"}
        id = self.change(f"{api}/prompts", prompt)["id"]
        self.change(f"{api}/prompts/{id}", prompt | {"nome": "q"}, "PUT")
        lot = self.change(f"{api}/projetos", {"nome": "Lote", "prompt_id": id})["id"]
        self.send("POST", f"{api}/lotes/{lot}/upload", files=[("arquivos", ("a.txt", LETTER * 3))])
        run = f"{api}/execucoes/{self.change(f'{api}/projetos/{lot}/executar')['execucao_id']}"
        self.become(run, "concluido", "concluida", "concluído", "completed")
        self.see(run, f"{run}/resultados", f"{run}/mosaico", f"{run}/erros", f"{run}/status-detalhado")
        self.see(f"{api}/status", f"{api}/prompts", f"{api}/projetos/{lot}", f"{api}/projetos/{lot}/execucoes")
        trial = {"files": [("arquivo", ("a.txt", LETTER * 3))], "data": {"prompt_id": str(id), "modelo": "local"}}
        self.send("POST", f"{api}/classificar-avulso", **trial)
        self.change(f"{api}/watchdog/verificar")
        for path in (run, f"{api}/projetos/{lot}", f"{api}/prompts/{id}"):
            self.send("DELETE", path)


def test_a_server_serves_every_resource_as_the_role_web_beside_a_worker(staff: Staff) -> None:
    staff.start("worker", "worker")
    with staff.serve() as client:
        walk = Walk(client)
        walk.everything()

    assert len(set(walk.answered)) > 60
    assert staff.complaints() == []


READING = """
batch list; batch show 1; batch plan 1; batch explain 1; batch export 1; job list; job show 1; queue list;
schedule list; workers --all; documents list; embeddings status; key list; calls list; calls spend;
prices list; limits list; verify; db status; travadas; metrics ana; job export
"""


def test_a_reader_reads_with_every_command_that_only_looks(staff: Staff, monkeypatch: pytest.MonkeyPatch) -> None:
    staff.done("owner", "key", "create", "tests", "--scope", "read")
    with retoma.sync.Retoma(staff.parts["web"], pipelines=[double]) as app:
        app.batch(double, [1, 2], name="some")
    worker = staff.start("worker", "worker", "--id", "ana")
    until(lambda: staff.value("select count(*) from retoma.jobs where state = 'completed' and queue = 'double'"))
    worker.terminate()
    worker.wait(timeout=240)
    monkeypatch.setenv("DATABASE_URL", staff.parts["reader"])
    monkeypatch.setenv("RETOMA_APP", PROGRAM)
    monkeypatch.setenv("RETOMA_HOME", staff.command.environment["RETOMA_HOME"])
    monkeypatch.delitem(sys.modules, "roles_program", raising=False)  # it reads its settings when it is imported
    for line in READING.replace("\n", " ").split(";"):
        ran = here(*line.split())  # in this process: what is shown here is what the account may do
        assert "permission denied" not in ran.output, line
        assert ran.exit_code in {0, 1, 4}, f"{line}: {ran.output}"


FORBIDDEN: dict[str, list[str]] = {
    "worker web reader": [
        "drop table retoma.jobs",
        "alter table retoma.jobs add column x integer",
        "alter table retoma.jobs disable trigger all",
        "truncate retoma.jobs",
        "truncate retoma.events",
        "create table retoma.x (id integer)",
        "create table public.x (id integer)",
        "create schema x",
        "create temporary table x (id integer)",
        "create function public.x() returns integer language sql as 'select 1'",
        "create function retoma.x() returns integer language sql as 'select 1'",
        "create index on retoma.jobs (id)",
        "drop extension vector",
        "create role x",
        "create database x",
        "copy (select 1) to program 'true'",
        "copy retoma.jobs from program 'true'",
        "copy retoma.jobs to '/etc/passwd'",
        "select pg_read_file('postgresql.conf')",
        "select lo_import('/etc/passwd')",
        "select * from pg_authid",
        "select pg_reload_conf()",
        "alter system set fsync = off",
        "alter role current_user superuser",
        "set session_replication_role = replica",
        "update retoma.alembic_version set version_num = '9999'",
        "insert into retoma.alembic_version values ('9999')",
        "delete from retoma.batch_moves",
        "update retoma.api_keys set scopes = '{admin}'",
        "delete from retoma.api_keys",
        "update retoma.checkpoints set value = '1'",
        "update retoma.checkpoints set fence = 1",
        "update retoma.jobs set input = '1'",
        "update retoma.attempts set ending = 'completed'",
        "update retoma.attempts set error = null",
        "update retoma.events set data = '{}'",
        "update retoma.spending set day = now()",
        "delete from retoma.spending",
        "delete from retoma.prices",
        "delete from retoma.prompt_versions",
        "update retoma.prompt_versions set content = 'x'",
        "update retoma.embeddings set vector = null",
        "delete from retoma.embeddings",
        "comment on schema retoma is 'mine'",
    ],
    "web reader": [
        "insert into retoma.checkpoints (job_id) values (1)",
        "delete from retoma.checkpoints",
        "update retoma.jobs set fence = 1",
        "update retoma.jobs set claimed_at = now()",
        "delete from retoma.jobs",
        "delete from retoma.attempts",
        "update retoma.attempts set fence = 1",
        "delete from retoma.batches",
        "delete from retoma.events",
        "insert into retoma.workers (label) values ('x')",
        "update retoma.workers set seen_at = now()",
        "insert into retoma.embeddings (content) values ('x')",
        "insert into retoma.document_chunks (content) values ('x')",
        "insert into retoma.spending (day) values (now())",
    ],
    "worker reader": [
        "insert into retoma.api_keys (id, name, secret_hash, scopes) values ('a', 'a', '', '{admin}')",
        "update retoma.api_keys set revoked_at = null",
        "select secret_hash from retoma.api_keys",
        "update retoma.api_keys set last_used_at = now()",
        "select body from retoma.replies",
        "insert into retoma.replies (key) values ('x')",
        "insert into retoma.prompts (name) values ('x')",
        "insert into retoma.documents (blob) values ('x')",
        "delete from retoma.documents",
        "delete from retoma.schedules",
    ],
    "reader": [
        "insert into retoma.jobs (pipeline) values ('x')",
        "update retoma.jobs set state = 'queued'",
        "select * from retoma.jobs for update",
        "select nextval('retoma.jobs_id_seq')",
        "insert into retoma.events (batch_id) values (1)",
        "update retoma.audit set who = 'nobody'",
        "delete from retoma.audit",
        "truncate retoma.audit",
        "insert into retoma.attempts (job_id) values (1)",
        "delete from retoma.lanes",
        "update retoma.limits set requests = null",
        "insert into retoma.calls (key) values ('x')",
        "lock table retoma.jobs in exclusive mode",
    ],
}  # fmt: skip


@pytest.fixture
def connections(parts: dict[str, str]) -> Iterator[dict[str, psycopg.Connection]]:
    found = {part: psycopg.connect(url, autocommit=True) for part, url in parts.items()}
    yield found
    for each in found.values():
        each.close()


def test_each_role_is_refused_what_is_not_its_work(connections: dict[str, psycopg.Connection]) -> None:
    allowed = []
    for parts, statements in FORBIDDEN.items():
        for part in parts.split():
            for statement in statements:
                # Some may not stand in a transaction, and one must.
                alone = statement.startswith(("create database", "alter system"))
                try:
                    with nullcontext() if alone else connections[part].transaction(force_rollback=True):
                        connections[part].execute(statement.encode())
                except REFUSED:
                    continue
                except psycopg.Error as error:
                    allowed.append(f"{part}: {statement}: {error}")
                else:
                    allowed.append(f"{part}: {statement}")

    assert not allowed, "\n".join(allowed)


def test_what_is_forbidden_is_well_formed(connections: dict[str, psycopg.Connection]) -> None:
    """A table or a column that is not there would be refused for that, once the rights were given."""
    connection, wrong = connections["admin"], []
    for statement in {each for statements in FORBIDDEN.values() for each in statements}:
        if not statement.startswith(("insert", "update", "delete", "select")):
            continue
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(f"explain {statement}".encode())
        except psycopg.Error as error:
            wrong.append(f"{statement}: {error}")

    assert not wrong, "\n".join(wrong)


# — the command —


@pytest.fixture
def names(empty_database_url: str) -> Iterator[Roles]:
    """Roles that the test may make on a database without tables; they go with it."""
    database = urlsplit(empty_database_url).path.strip("/")
    names = Roles.of(database)
    yield names
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for role in names.names:
            if connection.execute("select from pg_roles where rolname = %s", [role]).fetchone() is not None:
                connection.execute(f"drop owned by {role} cascade")
                connection.execute(f"drop role {role}")


def rights(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "select relname::text, relacl::text, relowner, (select array_agg(attacl::text order by attnum) from"
            " pg_attribute where attrelid = c.oid) from pg_class as c where relnamespace = to_regnamespace('retoma')"
            " union all select 'schema', nspacl::text, nspowner, null from pg_namespace where nspname = 'retoma'"
            " union all select 'database', datacl::text, datdba, null from pg_database where datname ="
            " current_database() order by 1"
        ).fetchall()


def test_the_printed_sql_does_what_apply_does_and_both_can_be_repeated(
    command: Command, empty_database_url: str, names: Roles
) -> None:
    url = empty_database_url
    command("db", "upgrade", DATABASE_URL=url)
    printed = command("db", "roles", DATABASE_URL=url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
    by_hand = rights(url)

    for _ in range(2):
        applied = command("db", "roles", "--apply", DATABASE_URL=url)
        assert applied.returncode == 0, applied.stderr
        assert rights(url) == by_hand

    assert printed.stderr == ""
    assert names.worker in printed.stdout
    assert migrate.status(url, Settings.load()).ready


def test_rights_that_somebody_gave_by_hand_are_taken_again(parts: dict[str, str]) -> None:
    role = urlsplit(parts["reader"]).username
    before = rights(parts["admin"])
    with psycopg.connect(parts["admin"], autocommit=True) as connection:
        connection.execute(f"grant all on retoma.jobs to {role}".encode())
        connection.execute(f"grant update (fence) on retoma.jobs to {role}".encode())

    migrate.grant(parts["admin"], Settings.load(), Roles.of(urlsplit(parts["admin"]).path.strip("/")))

    assert rights(parts["admin"]) == before


def test_an_upgrade_leaves_programs_of_before_their_rights_and_the_command_takes_them(
    command: Command, parts: dict[str, str]
) -> None:
    """A server of before still adds who asked to an event that it has written."""
    role = urlsplit(parts["web"]).username
    with psycopg.connect(parts["admin"], autocommit=True) as connection:
        connection.execute(f"grant update (data) on retoma.events to {role}".encode())
    signs = "update retoma.events set data = '{}' where false"

    upgraded = command("db", "upgrade", DATABASE_URL=parts["owner"])

    assert upgraded.returncode == 0, upgraded.stderr
    with psycopg.connect(parts["web"], autocommit=True) as connection:
        connection.execute(signs)
        applied = command("db", "roles", "--apply", DATABASE_URL=parts["admin"])
        assert applied.returncode == 0, applied.stderr
        with pytest.raises(REFUSED):
            connection.execute(signs)


def test_passwords_are_written_to_files_of_ones_own_and_printed_nowhere(
    command: Command, empty_database_url: str, names: Roles, tmp_path: Path
) -> None:
    folder = tmp_path / "urls"
    command("db", "upgrade", DATABASE_URL=empty_database_url)

    ran = [command("db", "roles", "--apply", "--urls", str(folder), DATABASE_URL=empty_database_url) for _ in range(2)]

    assert [each.returncode for each in ran] == [0, 0]
    assert sorted(each.name for each in folder.iterdir()) == ["owner.url", "reader.url", "web.url", "worker.url"]
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        url = file.read_text().strip()
        assert file.stat().st_mode & 0o777 == 0o600
        assert str(urlsplit(url).password) not in "".join(each.stdout + each.stderr for each in ran)
        with psycopg.connect(url) as connection:
            assert connection.info.user in names.names
    assert command("db", "roles", "--urls", str(folder), DATABASE_URL=empty_database_url).returncode == 2


def test_an_upgrade_by_the_owner_gives_the_roles_their_rights_on_new_tables(
    command: Command, empty_database_url: str, names: Roles, tmp_path: Path
) -> None:
    folder = tmp_path / "urls"
    command("db", "upgrade", "--to", "0003", DATABASE_URL=empty_database_url)
    made = command("db", "roles", "--apply", "--urls", str(folder), DATABASE_URL=empty_database_url)
    assert made.returncode == 0, made.stderr
    owner, worker = ((folder / f"{part}.url").read_text().strip() for part in ("owner", "worker"))

    upgraded = command("db", "upgrade", DATABASE_URL=owner)

    assert upgraded.returncode == 0, upgraded.stderr
    with psycopg.connect(worker, autocommit=True) as connection:
        connection.execute("select from retoma.calls")
        with pytest.raises(REFUSED):
            connection.execute("drop table retoma.calls")
        owners = connection.execute("select distinct tableowner from pg_tables where schemaname = 'retoma'").fetchall()
    assert owners == [(names.owner,)]


def test_an_account_that_is_no_superuser_can_make_the_roles(
    command: Command, server: str, empty_database_url: str, names: Roles
) -> None:
    admin = f"{names.owner}_admin"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create role {admin} login createrole password 'a password of the tests'")
        connection.execute(f"alter database {urlsplit(empty_database_url).path.strip('/')} owner to {admin}")
    hosts = urlsplit(empty_database_url).netloc.rpartition("@")[2]
    url = urlsplit(empty_database_url)._replace(netloc=f"{admin}:a%20password%20of%20the%20tests@{hosts}").geturl()
    try:
        ran = [command("db", *args, DATABASE_URL=url) for args in (["upgrade"], ["roles", "--apply"], ["upgrade"])]

        assert [(each.returncode, each.stderr) for each in ran if each.returncode] == []
        assert {owner for name, _, owner, _ in rights(empty_database_url) if name == "jobs"} != set()
    finally:
        with psycopg.connect(empty_database_url, autocommit=True) as connection:
            for role in (*names.names, admin):
                connection.execute(f"reassign owned by {role} to current_user")
                connection.execute(f"drop owned by {role} cascade")
                connection.execute(f"drop role {role}")


def test_a_role_that_may_do_anything_is_refused(command: Command, empty_database_url: str) -> None:
    mighty = str(urlsplit(empty_database_url).username)

    ran = command("db", "roles", "--apply", "--web", mighty, DATABASE_URL=empty_database_url)
    twice = command("db", "roles", "--web", "x", "--worker", "x", DATABASE_URL=empty_database_url)

    assert (ran.returncode, twice.returncode) == (2, 2)
    assert f"The role {mighty} may do more than any grant says: superuser" in ran.stderr
    assert "Give each a name of its own." in twice.stderr


def test_the_embedded_server_needs_no_roles(command: Command) -> None:
    ran = command("db", "roles")

    assert ran.returncode == 2
    assert "Set DATABASE_URL to a server of your own." in ran.stderr
    assert json.dumps(ran.stdout) == '""'


def test_a_database_whose_roles_are_gone_is_upgraded_all_the_same(command: Command, empty_database_url: str) -> None:
    """As after a restore on another server: the note came along, and the roles did not."""
    command("db", "upgrade", "--to", "0003", DATABASE_URL=empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        gone = {part: f"gone_{part}" for part in ("owner", "worker", "web", "reader")}
        connection.execute(f"comment on schema retoma is 'roles {json.dumps(gone)}'")

    ran = command("db", "upgrade", DATABASE_URL=empty_database_url)

    assert ran.returncode == 0, ran.stderr
    assert migrate.status(empty_database_url, Settings.load()).ready
