"""The routes of the classifier."""
