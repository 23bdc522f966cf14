"""The grammar behind `trtprof.kernel_names.parse`: readers of names, and one module for each group of families."""
