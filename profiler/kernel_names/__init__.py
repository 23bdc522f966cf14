"""The grammar behind `profiler.kernel_name`: readers of names, and one module for each group of families."""
