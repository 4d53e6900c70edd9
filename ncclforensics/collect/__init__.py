"""Collects what one node can tell of a job that hangs now.

Standard library only, Python 3.9 and later, nothing of the rest of the package: it is
sent to nodes that have neither (see `node.main`). What may block for ever, such as a
path on a mount that hangs, is asked in a child with a limit (`children`).
"""
