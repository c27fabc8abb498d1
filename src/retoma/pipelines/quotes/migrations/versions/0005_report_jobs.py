"""Reports of batches that workers write."""

from retoma.store.migrations import run

revision = "0005"
down_revision = "0004"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
