"""Asked anew: since when a person wants it tried again."""

from retoma.store.migrations import run

revision = "0022"
down_revision = "0021"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
