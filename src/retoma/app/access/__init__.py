"""Access: API keys, browser sessions, the token of a server without keys, and the audit of every action."""
