"""The public API: `Retoma` and its namespaces."""
