"""``python -m profiler``: the same as ``trtprof``."""

from profiler.cli import main

main()
