"""The screen of the classifier."""
