"""Embeddings: texts by their content, and what is known under which source."""

from retoma.store.migrations import run

revision = "0006"
down_revision = "0005"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
