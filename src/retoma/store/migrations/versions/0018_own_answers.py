"""Own answers: a step finds what it was answered, and what did not fit serves nobody else."""

from retoma.store.migrations import run

revision = "0018"
down_revision = "0017"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
