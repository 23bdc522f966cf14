"""What kernels are written from, one file a kind; see `trtprof.plugin.kernel`."""
