"""The machine: what executors do, who asked their worker to end, and which jobs a schedule queued."""

from retoma.store.migrations import run

revision = "0033"
down_revision = "0032"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
