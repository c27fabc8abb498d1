"""Declarations: a schedule knows which time its program declared."""

from retoma.store.migrations import run

revision = "0009"
down_revision = "0008"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
