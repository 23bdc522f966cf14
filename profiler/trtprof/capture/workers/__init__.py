"""Processes that run inferences while a profiler watches, and what they share."""
