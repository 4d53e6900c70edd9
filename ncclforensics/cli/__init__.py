"""The command line: one module per group of commands, and the terminal writers.

Importing this package imports nothing else, so that `--help` is instant.
"""
