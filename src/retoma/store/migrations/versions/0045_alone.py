"""Alone: jobs that are known to have taken their executor down run alone."""

from retoma.store.migrations import run

revision = "0045"
down_revision = "0044"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
