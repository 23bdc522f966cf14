"""Nsight Compute: hardware counters of chosen kernels."""
