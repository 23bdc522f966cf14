"""Fleets."""
