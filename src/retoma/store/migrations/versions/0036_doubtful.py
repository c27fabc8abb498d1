"""Classifications that are not sure and that nobody has decided are found at once."""

from retoma.store.migrations import run

revision = "0036"
down_revision = "0035"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
