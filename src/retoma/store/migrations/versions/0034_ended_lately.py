"""Jobs by the time at which they ended, queue by queue: how fast a queue moves is read without a scan."""

from retoma.store.migrations import run

revision = "0034"
down_revision = "0033"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
