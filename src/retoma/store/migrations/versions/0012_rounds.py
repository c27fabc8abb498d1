"""Rounds: one of the fleet makes each, and a worker that is gone is known in seconds."""

from retoma.store.migrations import run

revision = "0012"
down_revision = "0011"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
