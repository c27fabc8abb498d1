"""Up to five photographs of an item."""

from retoma.store.migrations import run

revision = "0004"
down_revision = "0003"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
