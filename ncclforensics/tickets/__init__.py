"""Posts a report to the ticket that a person names: a plan first, then the sending.

Each service is one file with a pure `plan`; `send` is the only place that speaks HTTP.
"""
