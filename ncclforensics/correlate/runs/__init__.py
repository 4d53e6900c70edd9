"""Jobs, restarts and clocks: evidence of several runs is separated here."""
