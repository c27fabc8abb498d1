"""${message}"""

from retoma.store.migrations import run

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
serves = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
