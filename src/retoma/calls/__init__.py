"""Requests to providers: recorded before they are sent, limited, priced, and answered once."""
