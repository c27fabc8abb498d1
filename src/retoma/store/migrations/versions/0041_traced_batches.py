"""Batches say in which trace they were sent or resumed."""

from retoma.store.migrations import run

revision = "0041"
down_revision = "0040"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
