"""Flight Recorder dumps of torch, pickle or JSON: read without executing anything."""
