"""Counted failures: requests that were under way together fail once."""

from retoma.store.migrations import run

revision = "0021"
down_revision = "0020"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
