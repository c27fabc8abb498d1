"""Suspected: the index over all jobs that must run alone."""

from retoma.store.migrations import run

revision = "0046"
down_revision = "0045"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
