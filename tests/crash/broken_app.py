"""A program with a mistake in it."""

raise RuntimeError("this program does not even load")
