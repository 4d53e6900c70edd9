"""Parser for torch Flight Recorder dumps, pickle or JSON; executes nothing in them."""
