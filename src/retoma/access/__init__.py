"""Who may come in: API keys, browser sessions, the token of a server without keys, and the audit of what was done."""
