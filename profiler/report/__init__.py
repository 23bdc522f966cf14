"""One file a format; none computes anything."""
