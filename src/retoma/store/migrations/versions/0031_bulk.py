"""Operations over all batches, by a filter; and the filters that people keep under a name."""

from retoma.store.migrations import run

revision = "0031"
down_revision = "0030"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
