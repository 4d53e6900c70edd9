"""Reads evidence at scale: processes, executors, cache, datasets, excerpts.

An analysis calls `reading.read`: sources in, the joined frames of all of them out.
"""
