"""When dumps were taken, what moved between two of them, and who arrived late."""
