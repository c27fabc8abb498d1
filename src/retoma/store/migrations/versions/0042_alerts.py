"""Alerts: incidents that the watchdog finds, and what was sent about them."""

from retoma.store.migrations import run

revision = "0042"
down_revision = "0041"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
