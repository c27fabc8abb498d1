"""Cohorts: the configurations of a batch, and under which of them each of its jobs runs."""

from retoma.store.migrations import run

revision = "0048"
down_revision = "0047"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
