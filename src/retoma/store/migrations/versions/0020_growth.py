"""Growth: indexes by which old rows, and the jobs of large batches, are found however many there are."""

from retoma.store.migrations import run

revision = "0020"
down_revision = "0019"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
