"""Where prices come from: one module for each service, and its answers as values."""
