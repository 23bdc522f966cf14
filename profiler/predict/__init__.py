"""What it should take."""
