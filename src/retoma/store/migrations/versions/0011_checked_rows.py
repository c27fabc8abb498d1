"""Checked rows: the shorter checks hold for old rows, too."""

from retoma.store.migrations import run

revision = "0011"
down_revision = "0010"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
