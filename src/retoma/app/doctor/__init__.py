"""The doctor: what is well, what is not, and what to do about it; for the terminal, the API and the console alike."""
