"""Classification: prompts, projects, their documents, and one result per document and batch."""

from retoma.store.migrations import run

revision = "0007"
down_revision = "0006"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
