"""Usage: what each API key has sent today, and which jobs it has queued."""

from retoma.store.migrations import run

revision = "0028"
down_revision = "0027"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
