"""The immutable result (the JSON contract) and its renderers.

`build` turns ranked findings into a `contract.Report`; each renderer is a function of
that report alone and computes nothing. Everything that came out of a log is cleaned
once, in `build`; each renderer then escapes for what it writes.
"""
