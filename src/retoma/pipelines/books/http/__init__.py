"""Books over HTTP, for programs."""
