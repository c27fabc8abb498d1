"""Indexes by which errors and requests are found over all batches."""

from retoma.store.migrations import run

revision = "0032"
down_revision = "0031"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
