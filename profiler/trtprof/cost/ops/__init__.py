"""One file a family of ops."""
