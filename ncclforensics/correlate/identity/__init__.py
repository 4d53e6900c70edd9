"""Identities: the host, process, GPU and groups of each rank."""
