"""From findings to one verdict: causes, roots and echoes, onset, what is ruled out."""
