"""Last steps: work over a whole batch, done by one more job of it once the others have ended."""

from retoma.store.migrations import run

revision = "0043"
down_revision = "0042"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
