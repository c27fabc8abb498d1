"""Turns: who is sent away by a limit is told when to come back, one after the other."""

from retoma.store.migrations import run

revision = "0008"
down_revision = "0007"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
