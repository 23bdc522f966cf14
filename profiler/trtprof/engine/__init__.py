"""What the backend made of it."""
