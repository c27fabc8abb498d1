"""Shorter checks: the same promises about jobs, cheaper to keep."""

from retoma.store.migrations import run

revision = "0010"
down_revision = "0009"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
