"""Unpriced calls: those to whom a price may come later are found at once."""

from retoma.store.migrations import run

revision = "0026"
down_revision = "0025"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
