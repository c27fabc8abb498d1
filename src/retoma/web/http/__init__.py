"""What every route shares: authentication, idempotency, errors, limits, streams."""
