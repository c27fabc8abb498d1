"""A job that fails for good is told to the webhooks that ask for it, in the transaction in which it fails."""

from retoma.store.migrations import run

revision = "0039"
down_revision = "0038"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
