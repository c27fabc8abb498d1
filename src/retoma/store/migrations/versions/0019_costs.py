"""Costs: what a call used by kind and in which tier, an unknown cost, and what was spent by calls that are gone."""

from retoma.store.migrations import run

revision = "0019"
down_revision = "0018"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
