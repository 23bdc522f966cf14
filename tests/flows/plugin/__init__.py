"""The brief, and what comes of it."""
