"""Jobs, restarts and their clocks: evidence of several runs is told apart here."""
