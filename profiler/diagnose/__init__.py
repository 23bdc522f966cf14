"""Why it differs."""
