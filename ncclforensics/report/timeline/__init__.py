"""The timeline as data: what each rank did in each call, for the TUI and the page."""
