"""Finishing: the batches whose last step is still to come are found by an index of their own."""

from retoma.store.migrations import run

revision = "0044"
down_revision = "0043"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
