"""Webhooks: endpoints, messages that are written with the change they tell of, and the log of their delivery."""

from retoma.store.migrations import run

revision = "0038"
down_revision = "0037"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
