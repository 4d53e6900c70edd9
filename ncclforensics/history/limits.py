"""The limits of the store and of its answers, each with its reason."""

from __future__ import annotations

# New files that are packed into one part: below it, reading them costs less than 0.1 s.
PACK_AT = 256
# Parts beside each other before the small ones are merged: each is a file to open.
MOST_PARTS = 8
# Packed files and replaced parts stay so long: a client of NFS may believe for a minute
# that a folder still lists them (acdirmax), and a reader takes seconds.
GRACE_S = 600
# What nobody ever committed is of a process that was killed, or is still to be.
ABANDONED_S = 86_400
# Chance to mark anybody in a table in which nobody differs. A mark can take a node out
# of service, so it is a fifth of the usual 5 %.
ALPHA = 0.01
# The same failure again on the same node within this time is one event: a job that is
# restarted meets the same fault again, which says nothing more about the node.
ONE_EVENT_S = 86_400
# How far "third GPU fault of gpu0078 in 30 days" looks back.
WINDOW_DAYS = 30
# Hosts that one verdict may name for that line: beyond, it is no matter of a node.
MOST_HOSTS = 4
