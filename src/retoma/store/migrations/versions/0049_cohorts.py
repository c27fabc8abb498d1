"""Cohorts: the configurations of a batch that was re-planned."""

from retoma.store.migrations import run

revision = "0049"
down_revision = "0048"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
