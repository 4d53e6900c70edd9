"""What each rank called, in order: calls, their numbers, groups, and places in code."""
