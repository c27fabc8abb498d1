"""Pauses with an end: a queue that is paused until a time goes on by itself."""

from retoma.store.migrations import run

revision = "0048"
down_revision = "0047"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
