"""Values as JSON and back, their types, their fingerprints, and text that is safe to show."""
