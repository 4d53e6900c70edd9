"""A store as OpenMetrics: incidents by class, faults by host, and who stands out.

Every family is a gauge, as for one report: an incident that is analyzed again may get
another class, and pruning takes some away, so none of these only ever grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.history.counts import counts
from ncclforensics.model.span import ALWAYS
from ncclforensics.report.formats.openmetrics import MOST, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.history.store import Store
    from ncclforensics.report.formats.openmetrics import Family


def openmetrics(store: Store, hours: Mapping[str, float] | None = None) -> str:
    """Return the metrics of a store; at most MOST hosts have series of their own."""
    classes = counts(store, "class", ALWAYS)
    hosts = counts(store, "host", ALWAYS, hours, MOST)
    by_class = [({"class": row.name}, row.incidents) for row in classes.rows]
    named = [({"host": row.name}, row.incidents) for row in hosts.rows]
    faults = [({"host": row.name}, row.events) for row in hosts.rows]
    out = [
        ({"host": row.name}, int(row.standing.stands_out))
        for row in hosts.rows
        if row.standing is not None
    ]
    rows = store.rows("outcome")["outcome"]
    kept = [({"outcome": name}, n) for name, n in rows.value_counts(sort=True).rows()]
    families: list[Family] = [
        ("history_analyses", "Analyses in the store, by outcome.", kept),
        ("history_incidents", "Failures in the store, by class.", by_class),
        ("history_host_incidents", "Failures that name a host.", named),
        ("history_host_faults", "Faults of a host, repeated ones once a day.", faults),
        ("history_host_stands_out", "1 for a host with too many faults.", out),
        ("history_hosts_compared", "Hosts that are compared.", [({}, hosts.compared)]),
    ]
    return rendered(families).decode()
