"""The command line: one module a group of commands, and the writers to the terminal.

Importing this package imports nothing: `--help` is instant.
"""
