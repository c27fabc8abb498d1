"""Under way: batches that have not ended and jobs that failed lately are counted by their own indexes."""

from retoma.store.migrations import run

revision = "0030"
down_revision = "0029"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
