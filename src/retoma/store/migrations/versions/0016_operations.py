"""Operations: commands on large batches, carried out a piece at a time; batches that are being removed."""

from retoma.store.migrations import run

revision = "0016"
down_revision = "0015"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
