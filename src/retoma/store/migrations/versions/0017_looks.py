"""Looks: when the watchdog last looked at a batch in which nothing moves."""

from retoma.store.migrations import run

revision = "0017"
down_revision = "0016"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
