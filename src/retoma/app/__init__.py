"""The front door: `Retoma` and what hangs on it."""
