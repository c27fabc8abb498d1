"""Schema revisions: a small Python file for Alembic, and beside it the SQL, up and down.

A revision says with ``serves`` which programs can use its tables: those that need that revision or a later one. A
revision that only adds keeps the value of the one before.
"""

import re
from pathlib import Path

LOCK_SECONDS = 2
"""How long a statement waits for a lock; every statement queued behind it waits as long. This is more than PostgreSQL's
``deadlock_timeout``, because that is when an automatic vacuum that holds the lock is cancelled.
"""

_GUARD = """do $$ begin
    if (select version_num from {1}.alembic_version) is distinct from '{0}' then
        raise exception 'The tables are not at revision {0}.';
    end if;
end $$"""


def run(revision_file: str, way: str) -> None:
    """Run the SQL file that belongs to a revision; *way* is 'up' or 'down'.

    A file that builds or drops indexes ``concurrently`` runs statement by statement without a transaction, because
    PostgreSQL allows nothing else. It blocks nobody, so it has no lock time-out. Printed SQL does not use
    ``concurrently``: without a transaction, nothing could stop a statement from running on tables of another revision.
    """
    from alembic import op  # noqa: PLC0415 - only there while Alembic runs

    context = op.get_context()
    assert context.script is not None
    file = Path(revision_file)
    revision = context.script.get_revision(file.name.partition("_")[0])
    before = revision.revision if way == "down" else revision.down_revision
    if context.as_sql and before is not None:
        # A client that runs the printed SQL may continue after an error; the later revisions must then fail too.
        op.execute(_GUARD.format(before, context.version_table_schema))
    text = file.with_suffix(f".{way}.sql").read_text(encoding="utf-8").replace("%", "%%")
    if context.as_sql:
        text = re.sub(r"\bconcurrently\s+", "", text)
    if statements := _concurrent(text):
        with context.autocommit_block():
            for statement in statements:
                op.execute(statement)
    else:
        op.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
        op.execute(text)


def _concurrent(text: str) -> list[str]:
    """The statements of a file that builds indexes without a transaction; empty for any other file."""
    bare = re.sub(r"--.*", "", text)
    return [each.strip() for each in bare.split(";") if each.strip()] if re.search(r"\bconcurrently\b", bare) else []
