"""What a verb does, from its options to its result: a file a verb, each going through the stages in order."""
