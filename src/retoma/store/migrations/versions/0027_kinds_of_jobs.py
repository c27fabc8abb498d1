"""Kinds of jobs: those of a queue or pipeline that ended are found in the order of their ids."""

from retoma.store.migrations import run

revision = "0027"
down_revision = "0026"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
