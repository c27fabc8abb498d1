"""The server process: connections, limits on them, several processes, start and stop."""
