"""Resting lanes: a claim looks only at lanes that may have something to give."""

from retoma.store.migrations import run

revision = "0013"
down_revision = "0012"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
