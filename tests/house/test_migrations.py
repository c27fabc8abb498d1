"""The schema changes under running workers: no revision rewrites, scans or blocks a table that is in use.

What a revision may do to a table that was there before it: add a column that needs no rewriting, loosen or add a
constraint that is not checked against old rows, drop an index, build one ``concurrently``. All else is refused here,
with what to do instead. ``tests/store/test_migrations.py`` asks PostgreSQL the same of what the files really do.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import retoma
from retoma.postgres import migrate

FOLDER = Path(retoma.__file__).parent / "store/migrations"
VERSIONS = FOLDER / "versions"

# (file, how the statement begins): why it is right all the same.
ALLOWED = {
    ("0003_batches.down.sql", "create index jobs_cancelling"): (
        "undoing this revision deletes every batch with its story: nobody does so under work that must go on"
    ),
    ("0035_reviews.up.sql", "create trigger decisions_"): (
        "nothing but a trigger keeps rows from the owner of a table; this one is new, and rows are only added to it"
    ),
    ("0029_who_did_what.up.sql", "create trigger audit_"): (
        "nothing but a trigger keeps rows from the owner of a table; this one is new, and rows are only added to it"
    ),
    ("0038_webhooks.up.sql", "create trigger webhook_of_batch"): (
        "a message is there when the change is, and once, whichever of many statements changes a batch; it runs where "
        "a state changes or a quarter is passed, and reads one small table"
    ),
    ("0039_failed_jobs_are_told.up.sql", "create trigger webhook_of_job"): (
        "the same, for the statements that let a job fail; its condition is false for every other change of a job"
    ),
}

NAME = r"(?:only\s+)?(?:if\s+exists\s+)?(?:if\s+not\s+exists\s+)?([\w.]+)"
LITERAL = r"(?:'[^']*'(?:::\w+)?|-?[\d.]+|true|false|null|now\(\)|current_timestamp)"
TYPE = r"(?:text|smallint|int|integer|bigint|real|double precision|numeric|boolean|date|timestamptz|jsonb?|uuid|bytea)"
TYPE += r"(?:\([\d, ]+\))?(?:\[\])?"
QUICK = [  # what PostgreSQL does to a table by a note in its catalogue
    rf"add\s+column\s+(?:if\s+not\s+exists\s+)?\w+\s+{TYPE}(?:\s+(?:default\s+{LITERAL}|not\s+null|null))*",
    r"add\s+constraint\s+\w+\s+(?:check|foreign\s+key)\b.*\bnot\s+valid",
    r"add\s+constraint\s+\w+\s+(?:unique|primary\s+key)\s+using\s+index\s+\w+",
    r"validate\s+constraint\s+\w+",
    r"drop\s+constraint\s+(?:if\s+exists\s+)?\w+",
    r"alter\s+(?:column\s+)?\w+\s+(?:set\s+default\s+.*|drop\s+default|drop\s+not\s+null|set\s+statistics\s+\d+)",
    r"(?:re)?set\s*\(.*\)",
]
TAKEN_AWAY = [
    r"drop\s+(?:table|view|column|type|function|schema)",
    r"alter\s+table\s+\S+\s+(?:drop\s+(?:column\s+)?(?!constraint)\w+|rename)",
    r"alter\s+\w+\s+\S+\s+rename",
]
NEVER = {
    r"(?:update|delete\s+from|truncate|lock|cluster|reindex|vacuum)\s": "work on rows in steps, from a program",
    r"create\s+(?:or\s+replace\s+)?(?:constraint\s+)?trigger": "say it in the statement that does it",
}


def bare(text: str) -> str:
    return re.sub(r"--.*", "", text).lower()


def statements(text: str) -> list[str]:
    """One line each. Those inside a do-block count like the others: it is where they are that ends there."""
    opened = re.sub(r"\bexecute\s+'([^']*)'", r"\1", bare(text))
    parts = re.split(r";|\bbegin\b|\bthen\b|\bend\b|\$\$", opened)
    return [said for part in parts if (said := re.sub(r"\s+", " ", part).strip())]


def made(text: str) -> set[str]:
    return set(re.findall(rf"create\s+(?:unlogged\s+)?table\s+{NAME}", bare(text)))


def parts_of(actions: str) -> list[str]:
    """The actions of an ``alter table``: commas inside brackets and quotes do not part them."""
    found, depth, quoted = [""], 0, False
    for sign in actions:
        quoted ^= sign == "'"
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if sign == "," and not depth and not quoted:
            found.append("")
        else:
            found[-1] += sign
    return [each.strip() for each in found if each.strip()]


def touches(statement: str, own: set[str]) -> str | None:
    """The table that was there before and that this statement locks against writers; None when there is none."""
    for pattern in (rf"alter table {NAME}", rf"create (?:unique )?index (?!concurrently).*? on {NAME}"):
        if (found := re.match(pattern, statement)) and found[1] not in own:
            return found[1]
    if found := re.search(rf"\breferences {NAME}", statement):
        return found[1] if found[1] not in own else None
    if found := re.match(rf"drop index (?!concurrently){NAME}", statement):
        return indexed().get(found[1].rpartition(".")[2], found[1])
    return None


@cache
def indexed() -> dict[str, str]:
    """Which table an index is on."""
    every = "\n".join(file.read_text(encoding="utf-8") for file in VERSIONS.glob("*.sql"))
    return dict(re.findall(rf"create\s+(?:unique\s+)?index\s+(?:concurrently\s+)?(\w+)\s+on\s+{NAME}", bare(every)))


def too_long(statement: str, own: set[str]) -> str | None:
    """Why *statement* would hold up those who use the tables; None when it would not."""
    for pattern, instead in NEVER.items():
        if re.match(pattern, statement):
            return instead
    if (found := re.match(rf"create (?:unique )?index .*?\bon {NAME}", statement)) and found[1] not in own:
        return None if " concurrently " in statement else "build it concurrently, in a revision of its own"
    if (found := re.match(rf"alter table {NAME} (.*)", statement)) and found[1] not in own:
        slow = [each for each in parts_of(found[2]) if not any(re.fullmatch(quick, each) for quick in QUICK)]
        slow = [each for each in slow if not any(re.match(gone, f"alter table x {each}") for gone in TAKEN_AWAY)]
        return f"{slow[0]!r} reads or writes every row: add beside it, fill in steps, then switch" if slow else None
    return None


def takes_away(statement: str, own: set[str]) -> bool:
    gone = re.match(rf"(?:drop table|drop view) {NAME}", statement)
    return any(re.match(each, statement) for each in TAKEN_AWAY) and not (gone and gone[1] in own)


def in_order(told: list[str], own: set[str]) -> list[str]:
    """What is wrong with when, and on how many tables, locks are taken."""
    locking = [bool(touches(each, own)) for each in told]
    found = sorted({str(touches(each, own)) for each in told} - {"None"})
    wrong = [] if len(found) < 2 else [f"locks {', '.join(found)}: two sessions that meet there wait for each other"]
    if True in locking and not all(locking[locking.index(True) :]):
        wrong.append(f"goes on while {found[0]} is locked: put what locks it last")
    return wrong


def alone(told: list[str]) -> list[str]:
    """What is wrong with a file whose statements are not in a transaction: it may stop anywhere, and is given again."""
    if not any(" concurrently " in each for each in told):
        return []
    wrong = [
        f"stands beside an index that is built concurrently: {each}" for each in told if " concurrently " not in each
    ]
    for place, each in enumerate(told):
        if named := re.match(r"create (?:unique )?index concurrently (\w+) on ", each):
            before = told[place - 1] if place else ""
            if not re.fullmatch(rf"drop index concurrently if exists (?:\w+\.)?{named[1]}", before):
                wrong.append(
                    f"leaves half an index behind when it fails: drop {named[1]} concurrently if it exists first"
                )
        elif not each.startswith("drop index concurrently if exists"):
            wrong.append(f"cannot be given again: {each}")
    return wrong


def complaints(text: str, *, up: bool = True, raised: bool = False, file: str = "") -> list[str]:
    """All that a revision's file may not do; *raised* when it no longer serves the programs of before."""
    told, own = statements(text), made(text)
    wrong = alone(told)
    for each in told:
        if any(file == name and each.startswith(begins) for name, begins in ALLOWED):
            continue
        if why := too_long(each, own):
            wrong.append(f"{each[:80]}: {why}")
        if up and not raised and takes_away(each, own):
            wrong.append(f"{each[:80]}: programs that run now may use it, so raise 'serves'")
    return wrong + (in_order(told, own) if up else [])


def revisions() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    return ScriptDirectory.from_config(config)


FILES = sorted(file for file in VERSIONS.glob("*.sql") if not file.name.startswith("0001"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_revision_holds_up_those_who_use_the_tables(file: Path) -> None:
    found = revisions().get_revision(file.name[:4])
    before = revisions().get_revision(str(found.down_revision))

    wrong = complaints(
        file.read_text(encoding="utf-8"),
        up=file.name.endswith(".up.sql"),
        raised=found.module.serves > before.module.serves,
        file=file.name,
    )

    assert not wrong, "\n".join(wrong)


def test_every_statement_that_is_allowed_all_the_same_is_still_there() -> None:
    gone = [
        f"{name}: {begins}"
        for name, begins in ALLOWED
        if not any(each.startswith(begins) for each in statements((VERSIONS / name).read_text(encoding="utf-8")))
    ]

    assert gone == []


def test_every_revision_says_whom_it_serves_and_never_somebody_older_than_the_one_before() -> None:
    served = [each.module.serves for each in reversed(list(revisions().walk_revisions()))]
    numbers = [each.revision for each in reversed(list(revisions().walk_revisions()))]

    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)], "numbers are compared as text"
    assert numbers[-1] == migrate.HEAD
    assert served == sorted(served)
    assert all(serves <= number for serves, number in zip(served, numbers, strict=True))


GOOD = [
    "alter table retoma.jobs add column shade text",
    "alter table retoma.jobs add column shade numeric(10, 2) not null default 0",
    "alter table retoma.jobs add column since timestamptz default now(), add column shades text[]",
    "alter table retoma.jobs add constraint shades_have_names check (shade <> '') not valid",
    "alter table retoma.jobs drop constraint a_state_has_a_name",
    "alter table retoma.jobs set (fillfactor = 70)",
    "alter table retoma.jobs alter column shade set default 'red'",
    "create table retoma.shades (id bigint primary key, job bigint); create index a on retoma.shades (job)",
    "create table retoma.shades (id bigint); alter table retoma.shades alter column id type integer",
    "create table retoma.shades (batch bigint references retoma.batches)",
    (
        "do $$ begin if true then execute 'create index a on retoma.shades (id)'; end if; end $$;"
        "create table retoma.shades (id bigint)"
    ),
    "drop index concurrently if exists retoma.a; create index concurrently a on retoma.jobs (key)",
    "drop index retoma.jobs_ready",
    "drop index retoma.jobs_ready; alter table retoma.jobs add column shade text",
    "create or replace view retoma.queue_jobs as select 1",
    "insert into retoma.batch_moves values ('a', 'b')",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_is_over_at_once_is_allowed(text: str) -> None:
    assert complaints(text) == []


BAD = {
    "alter table retoma.jobs alter column key type varchar(20)": "every row",
    "alter table retoma.jobs alter column key set not null": "every row",
    "alter table retoma.jobs add column id uuid not null default gen_random_uuid()": "every row",
    "alter table retoma.jobs add column at timestamptz default clock_timestamp()": "every row",
    "alter table retoma.jobs add column number bigserial": "every row",
    "alter table retoma.jobs add column twice int generated always as (attempt * 2) stored": "every row",
    "alter table retoma.jobs add column one int unique": "every row",
    "alter table retoma.jobs add constraint a check (attempt < 9)": "every row",
    "alter table retoma.jobs add column a text, add constraint b unique (key)": "every row",
    "alter table retoma.jobs set unlogged": "every row",
    "create index a on retoma.jobs (key)": "concurrently",
    "create unique index a on retoma.jobs (key)": "concurrently",
    "do $$ begin execute 'create index a on retoma.jobs (key)'; end $$": "concurrently",
    "alter table retoma.jobs drop column error": "raise 'serves'",
    "alter table retoma.jobs drop error": "raise 'serves'",
    "alter table retoma.jobs rename column error to fault": "raise 'serves'",
    "alter table retoma.jobs rename to works": "raise 'serves'",
    "alter view retoma.queue_jobs rename to queue": "raise 'serves'",
    "drop table retoma.signals": "raise 'serves'",
    "drop view retoma.queue_jobs": "raise 'serves'",
    "update retoma.jobs set shade = 'red'": "in steps",
    "delete from retoma.events": "in steps",
    "truncate retoma.events": "in steps",
    "lock table retoma.jobs": "in steps",
    "create trigger a after update on retoma.jobs for each row execute function f()": "in the statement",
    "alter table retoma.jobs add column a text; create table retoma.shades (id int)": "put what locks it last",
    "create table retoma.a (b int references retoma.batches); create table retoma.c (d int)": "put what locks it last",
    "alter table retoma.jobs add column a text; alter table retoma.batches add column a text": "wait for each other",
    "create index concurrently a on retoma.jobs (key)": "half an index",
    "create index concurrently if not exists a on retoma.jobs (key)": "cannot be given again",
    "drop index concurrently retoma.a": "cannot be given again",
    "drop index concurrently if exists retoma.a; create index concurrently a on retoma.jobs (key);"
    "create table retoma.shades (id int)": "stands beside",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_what_holds_others_up_or_takes_from_them_is_refused(text: str) -> None:
    assert any(BAD[text] in said for said in complaints(text)), complaints(text)


def test_something_may_go_once_its_programs_are_no_longer_served_and_when_a_revision_is_undone() -> None:
    assert complaints("alter table retoma.jobs drop column error", raised=True) == []
    assert complaints("drop table retoma.signals", up=False) == []
    assert complaints("create index a on retoma.jobs (key)", up=False)
