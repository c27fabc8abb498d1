"""What the documents of a batch say of each other."""

from retoma.store.migrations import run

revision = "0001"
down_revision = None
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
