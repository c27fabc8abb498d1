"""Documents: uploaded, read, cut, embedded, found by what they mean."""
