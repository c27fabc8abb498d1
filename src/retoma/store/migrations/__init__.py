"""Schema revisions: a small Python file for Alembic, and beside it the SQL, up and down."""

from pathlib import Path


def run(revision_file: str, way: str) -> None:
    """Run the SQL file that belongs to a revision; *way* is 'up' or 'down'."""
    from alembic import op  # noqa: PLC0415 - only there while Alembic runs

    op.execute(Path(revision_file).with_suffix(f".{way}.sql").read_text(encoding="utf-8").replace("%", "%%"))
