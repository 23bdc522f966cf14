"""What is said, once for each kind of record: pure functions of a record and options that give a `Document`."""
