"""Log lines in a table that a log service exported as CSV, a record per row.

CloudWatch (`timestamp,message`; Insights `@timestamp,@message,@logStream`), Datadog
(`Date,Host,Service,Message`), Azure Monitor (`TimeGenerated,PodName,LogMessage`),
Splunk (`_time,host,_raw`), Grafana (`Time,Line`): a header line that names a column of
lines and one of times. Rendered from the documentation of each.
"""

from __future__ import annotations

import csv
import io

import polars as pl

from ncclforensics.parsers.logs import json_records

# lower-case column names, the best first
NAMES = {
    "raw": (
        *("message", "@message", "_raw", "line", "log", "logmessage", "textpayload"),
        *("content", "body", "jsonpayload.message"),
    ),
    "told_t": (
        *("timestamp", "@timestamp", "_time", "timegenerated", "date", "time"),
        *("tsns", "timestamp_ns"),
    ),
    "told_host": (
        *("host", "hostname", "node", "nodename", "node_name", "computer"),
        *("kubernetes.host", "kubernetes.node_name", "@host"),
    ),
    "told_pod": (
        *("pod", "podname", "pod_name", "kubernetes.pod_name"),
        "resource.labels.pod_name",
    ),
    "told_algo": ("@logstream",),
    "told_namespace": (
        *("namespace", "podnamespace", "kubernetes.namespace_name"),
        "resource.labels.namespace_name",
    ),
    "told_container": ("container", "containername", "container_name"),
    "told_rank": ("rank", "rank_id"),
}
MOST_COLUMNS = 64


def separator(header: str) -> str:
    """Return what stands most often in a header: a comma, a semicolon or a tab."""
    return max(",;\t", key=header.count)


def columns(header: str) -> dict[str, str]:
    """Map `raw` and COLUMNS to the column names of a header line.

    Empty if the header is not one of an export, without a column of lines or of times.
    """
    cut = separator(header)
    try:
        named = next(csv.reader([header.lstrip("\ufeff")], delimiter=cut), [])
    except csv.Error:
        return {}
    if not 2 <= len(named) <= MOST_COLUMNS:
        return {}
    own = {name.strip().lower(): name for name in named}
    found = {
        column: own[first]
        for column, names in NAMES.items()
        if (first := next((n for n in names if n in own), None))
    }
    return found if {"raw", "told_t"} <= found.keys() else {}


def read(data: bytes) -> pl.DataFrame:
    """Read an export: `line` (where a record begins), `raw` and COLUMNS, as strings.

    Raises polars.exceptions.PolarsError if it is no table.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    header = data.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
    table = pl.read_csv(
        io.BytesIO(data),
        separator=separator(header),
        infer_schema=False,
        truncate_ragged_lines=True,
        encoding="utf8-lossy",
    )
    named = columns(header)
    breaks = pl.sum_horizontal(
        pl.col(c).str.count_matches("\n", literal=True).fill_null(0)
        for c in table.columns
    ).cast(pl.Int64)
    begin = pl.int_range(pl.len(), dtype=pl.Int64) + 2 + breaks.cum_sum() - breaks
    empty = pl.lit(None, pl.String)
    given = {c: pl.col(of) for c, of in named.items()}
    return table.select(
        begin.alias("line"),
        *(given.get(c, empty).alias(c) for c in ("raw", *json_records.COLUMNS)),
    ).with_columns(
        json_records.moment(pl.col("told_t")),
        json_records.of_stream(pl.col("told_algo")),
    )
