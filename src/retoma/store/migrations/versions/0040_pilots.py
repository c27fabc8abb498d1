"""Pilots: some jobs of a batch run first, and the rest is held until somebody releases it."""

from retoma.store.migrations import run

revision = "0040"
down_revision = "0039"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
