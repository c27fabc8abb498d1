"""Weights: queues take turns, and some more often than others."""

from retoma.store.migrations import run

revision = "0014"
down_revision = "0013"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
