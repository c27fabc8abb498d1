"""Reviews: what waits for a person's decision, who looks at it, and what was decided."""

from retoma.store.migrations import run

revision = "0035"
down_revision = "0034"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
