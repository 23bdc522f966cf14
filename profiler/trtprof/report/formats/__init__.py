"""One file a format; each renders every document (`trtprof.report.document`), or says of which records it is."""
