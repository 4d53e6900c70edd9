"""How evidence is read at scale: processes, executors, cache, datasets, excerpts.

`reading.read` is what an analysis calls: sources in, frames of all of them out.
"""
