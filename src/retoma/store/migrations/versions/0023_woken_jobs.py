"""Woken jobs: those that sleep for a limit can be found."""

from retoma.store.migrations import run

revision = "0023"
down_revision = "0022"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
