"""Kinds of prices: what is written to a cache, reasoned or said aloud has its own."""

from retoma.store.migrations import run

revision = "0024"
down_revision = "0023"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
