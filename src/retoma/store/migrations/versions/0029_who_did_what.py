"""Who did what: sessions of their own, an audit that only grows, keys that are rotated."""

from retoma.store.migrations import run

revision = "0029"
down_revision = "0028"
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
