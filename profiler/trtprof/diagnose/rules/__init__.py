"""One rule a file, named after its code."""
