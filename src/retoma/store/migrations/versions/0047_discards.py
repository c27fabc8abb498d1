"""Discards: failed jobs that a person has settled as not to be retried."""

from retoma.store.migrations import run

revision = "0047"
down_revision = "0046"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
