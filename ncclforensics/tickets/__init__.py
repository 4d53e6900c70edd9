"""Posts a report to a ticket: first a plan without network, then sending.

Each service is one module with a pure `plan` function; `send` carries the plan out over
`http`, the only module that makes requests.
"""
