"""The immutable result (the JSON contract) and its renderers.

`build` turns ranked findings into a `contract.Report`. Each renderer is a function of
that report alone and computes nothing. All text from logs is sanitized once, in
`build`; each renderer then escapes for its own format.
"""
