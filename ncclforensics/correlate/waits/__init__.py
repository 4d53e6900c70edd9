"""Who waits for whom, from dumps and from lines: blocking calls and their graph."""
