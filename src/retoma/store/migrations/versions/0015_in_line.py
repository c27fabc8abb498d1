"""In line: indexes over lanes that are awake, free places, suspects, and jobs by pipeline."""

from retoma.store.migrations import run

revision = "0015"
down_revision = "0014"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
