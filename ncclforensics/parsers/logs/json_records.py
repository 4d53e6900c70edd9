"""Log lines that a shipper wrapped in JSON, one object per line.

Docker's `*-json.log` (`log stream time`), `journalctl -o json` (`MESSAGE _HOSTNAME
__REALTIME_TIMESTAMP`), Fluent Bit with its Kubernetes filter (`log kubernetes.…`), Loki
(`line labels`), Stackdriver (`textPayload timestamp`), CloudWatch and Datadog
(`message timestamp host`). The line, the host and the time inside count as if they
stood there bare; of an object without a known line nothing changes.
"""

from __future__ import annotations

import polars as pl

LINE = (
    *("$.MESSAGE", "$.log", "$.message", "$.msg", "$.line", "$.textPayload"),
    *("$.jsonPayload.message", "$.body", "$._raw"),
)
HOST = (
    *("$._HOSTNAME", "$.kubernetes.host", "$.kubernetes.node_name", "$.hostname"),
    *("$.host.name", "$.host", "$.nodename", "$.labels.node"),
)
POD = ("$.kubernetes.pod_name", "$.labels.pod", "$.pod")
TIME = (
    *("$.__REALTIME_TIMESTAMP", "$.time", "$.timestamp", '$["@timestamp"]', "$.ts"),
    "$.date",
)
_NESTED = r"(?s)^\{.*\}$|^\[\s*[\d\"\[{\]-].*\]$|^\[\]$"
# digits of a Unix time: seconds, milliseconds, microseconds, nanoseconds
UNITS = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}


def unwrapped(lines: pl.DataFrame) -> pl.DataFrame:
    """Replace `raw` by the line inside, and add `json_host`, `json_pod` and `json_t`.

    The added columns are strings; `json_t` is RFC 3339, null where nothing tells it.
    """
    raw = pl.col("raw")
    wrapped = raw.str.contains(r'^\s*\{\s*"') & raw.str.contains(r"\}\s*$")
    empty = [pl.lit(None, pl.String).alias(f"json_{c}") for c in ("host", "pod", "t")]
    if not lines.select(wrapped.any()).item():
        return lines.with_columns(empty)
    told = lines.with_row_index("_row")
    inside = told.filter(wrapped).select(
        "_row",
        _first(LINE).str.strip_chars_end("\r\n").alias("_line"),
        _first(HOST).alias("json_host"),
        _first(POD).alias("json_pod"),
        _moment(_first(TIME)).alias("json_t"),
    )
    return (
        told.join(
            inside.drop_nulls("_line"), on="_row", how="left", maintain_order="left"
        )
        .with_columns(pl.coalesce("_line", "raw").alias("raw"))
        .drop("_row", "_line")
    )


def _first(paths: tuple[str, ...]) -> pl.Expr:
    """Return the first string or number that one of some JSON paths leads to."""
    found = (pl.col("raw").str.json_path_match(path) for path in paths)
    plain = (pl.when(~value.str.contains(_NESTED)).then(value) for value in found)
    return pl.coalesce(*plain)


def _moment(told: pl.Expr) -> pl.Expr:
    """Return times as RFC 3339: a Unix time by its digits, others as they are."""
    number = told.str.extract(r"^(\d{10}(?:\d{3}){0,3})(?:\.\d+)?$")
    unit = number.str.len_chars().replace_strict(UNITS, default=None)
    nanoseconds = number.cast(pl.Int64, strict=False) * unit
    stamp = nanoseconds.cast(pl.Datetime("ns")).dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ")
    return pl.coalesce(stamp, told)
