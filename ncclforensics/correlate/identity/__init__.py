"""Who is who: ranks, hosts, processes, GPUs, and the members of groups."""
