"""Nsight Systems: recording with it, and reading what it wrote."""
