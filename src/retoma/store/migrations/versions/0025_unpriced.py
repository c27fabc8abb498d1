"""Unpriced: a batch counts the calls whose cost nobody knows."""

from retoma.store.migrations import run

revision = "0025"
down_revision = "0024"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
