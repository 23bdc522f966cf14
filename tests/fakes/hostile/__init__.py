"""Hostile inputs: names, and documents and bytes that are broken at random."""
