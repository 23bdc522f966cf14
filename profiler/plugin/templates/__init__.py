"""What kernels are written from, one file a kind; see `profiler.plugin.kernel`."""
