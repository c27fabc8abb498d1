"""Cohorts of jobs: under which configuration of its batch each job runs."""

from retoma.store.migrations import run

revision = "0050"
down_revision = "0049"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
