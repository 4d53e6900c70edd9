"""Turn findings into one verdict: causes, roots, echoes, onset, what is ruled out."""
