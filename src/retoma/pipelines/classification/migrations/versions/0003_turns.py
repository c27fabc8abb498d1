"""The order in which people are asked about results in doubt."""

from retoma.store.migrations import run

revision = "0003"
down_revision = "0002"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
