"""People: accounts with roles, the sessions they open, and the sign-ins that failed."""

from retoma.store.migrations import run

revision = "0037"
down_revision = "0036"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
