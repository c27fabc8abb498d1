"""What people taught, and what came of it."""

from retoma.store.migrations import run

revision = "0002"
down_revision = "0001"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
