"""The command line of a later version: ours, with revisions of its own that every busy table feels.

Started with the folder of those revisions and the words of the command.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from retoma.cli import main
from retoma.postgres import migrate

BUSY = ("jobs", "workers", "attempts", "checkpoints", "batches", "events", "lanes")
INDEX = "jobs_of_pipeline"
NEWEST = f"{int(migrate.HEAD) + len(BUSY) + 1:04d}"

_REVISION = """
from retoma.store.migrations import run

revision = "{number:04d}"
down_revision = "{before:04d}"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
"""


def write(folder: Path) -> Path:
    """All our revisions, then a column more for each busy table, then an index that is built beside the work."""
    shutil.copytree(migrate._folder(migrate.ENGINE), folder)
    added = [
        (
            f"alter table retoma.{table} add column added_later text not null default 'nothing';",
            f"alter table retoma.{table} drop column added_later;",
        )
        for table in BUSY
    ]
    gone = f"drop index concurrently if exists retoma.{INDEX};"
    added.append((f"{gone}\ncreate index concurrently {INDEX} on retoma.jobs (pipeline, id);", gone))
    for number, (up, down) in enumerate(added, int(migrate.HEAD) + 1):
        file = folder / f"versions/{number:04d}_later.py"
        file.write_text(_REVISION.format(number=number, before=number - 1))
        file.with_suffix(".up.sql").write_text(up)
        file.with_suffix(".down.sql").write_text(down)
    return folder


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    migrate.HEAD = NEWEST
    ours = migrate._folder
    migrate._folder = lambda branch: folder if branch is migrate.ENGINE else ours(branch)
    main()
