"""Local servers, read-only, on what was named at their start: for agents, browsers."""
