"""One file a format; each renders every document (`profiler.report.document`), or says of which records it is."""
