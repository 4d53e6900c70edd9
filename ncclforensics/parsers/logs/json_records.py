"""Log lines that a shipper or a runtime wrapped in JSON, one object per line.

Docker's `*-json.log`, `journalctl -o json`, Fluent Bit, Vector, `logcli -o jsonl`,
`stern -o json`, Determined, CloudWatch, Stackdriver and Datadog: the keys are in the
tables below. The line, host, pod, rank and time inside count as if a launcher had put
them in front of the line; of an object without a known line nothing changes. Files of
JSON that are not one object per line are read by `record_files`.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model.tables import with_nulls
from ncclforensics.parsers.logs.shipped_records import SHIPPED, bared

LINE = (
    "$.event.HealthEvent.message",  # NVSentinel's
    *("$.MESSAGE", "$.log", "$.message", "$.msg", "$.line", "$.textPayload"),
    *("$.jsonPayload.message", "$.jsonPayload.log", "$.body", "$._raw"),
    *("$.content.message", "$.attributes.message", "$.event", "$.record.message"),
)
# the traceback of a record, under whatever key its program puts it
HEAD = "Traceback (most recent call last)"
_RAISED = r'"(?:[^"\\]|\\.)*?(Traceback \(most recent call last\)(?:[^"\\]|\\.)*)"'
# how far the training is, beside the line
STEP = ("$.step", "$.global_step", "$.iteration", "$.extra.step")
# CloudWatch's name of a stream, of which only SageMaker's tells a host:
# `job/algo-2-1700000000`
STREAM = "$.logStreamName"
_ALGO = r"^(?:[^/]+/)?(algo-\d{1,5})-\d+$"
TOLD = {
    "told_host": (
        "$.event.HealthEvent.nodeName",
        *("$._HOSTNAME", "$.kubernetes.host", "$.kubernetes.node_name"),
        *("$.kubernetes.pod_node_name", "$.kubernetes.node.name", "$.nodeName"),
        *("$.hostname", "$.host.name", "$.host", "$.nodename", "$.node"),
        *("$.node_name", "$.labels.node"),
        *("$.labels.node_name", "$.labels.hostname", "$.labels.host", "$.agent_id"),
        *('$.labels["compute.googleapis.com/resource_name"]', "$.content.host"),
        *("$.attributes.host", '$.resource.attributes["k8s.node.name"]'),
        '$.resource.attributes["host.name"]',
    ),
    "told_pod": (
        *("$.kubernetes.pod_name", "$.kubernetes.pod.name", "$.labels.pod"),
        *("$.labels.pod_name", "$.resource.labels.pod_name", "$.podName", "$.pod"),
        *("$.pod_name", '$.resource.attributes["k8s.pod.name"]'),
    ),
    "told_algo": (STREAM,),
    "told_namespace": (
        *("$.kubernetes.namespace_name", "$.kubernetes.pod_namespace"),
        *("$.kubernetes.namespace", "$.labels.namespace", "$.namespace"),
        *("$.resource.labels.namespace_name", "$.namespace_name"),
        '$.resource.attributes["k8s.namespace.name"]',
    ),
    "told_container": (
        *("$.kubernetes.container_name", "$.kubernetes.container.name"),
        *("$.labels.container", "$.resource.labels.container_name"),
        *("$.containerName", "$.container_name", "$.container_id"),
        '$.resource.attributes["k8s.container.name"]',
    ),
    "told_rank": (
        *("$.rank_id", "$.rankId", "$.rank", "$.global_rank", "$.process_rank"),
        *("$.extra.rank", "$.extra.global_rank", "$.record.extra.rank"),
        *("$.context.rank", "$.fields.rank", "$.labels.rank", "$.attributes.rank"),
        "$.labels.global_rank",
    ),
    "told_level": (
        "$.level",
        "$.levelname",
        "$.severity",
        "$.record.level.name",
        "$.severityText",
    ),
    "told_t": (
        *("$.__REALTIME_TIMESTAMP", "$.time", "$.timestamp", '$["@timestamp"]'),
        *("$.ts", "$.date", "$.attributes.timestamp", "$.content.timestamp"),
        *("$.asctime", "$.datetime", "$.record.time.repr", "$.created"),
        *("$.timeUnixNano", "$.observedTimeUnixNano", "$._time"),
    ),
}
COLUMNS = tuple(TOLD)
NUMBERED = r"(?i)(?:step|iteration)\W{0,3}\d"  # a line that tells the step itself
OBJECT = r'^\s*\{\s*"'
RECORD = f"{OBJECT}|{SHIPPED}"  # an object, or one with what a shipper puts around it
# of Docker's json-file driver; only the last piece of a line ends with a newline
DOCKER = '{"log":"'
# records whose lines cannot be searched as they stand: a traceback in one record, and
# a line with colours, or one that is no UTF-8, which the journal spells as bytes
UNSEARCHABLE = [r"\n  File \"", '"MESSAGE":[']
_NESTED = r"(?s)^\{.*\}$|^\[\s*[\d\"\[{\]-].*\]$|^\[\]$"
JOURNAL = "$.MESSAGE"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_BYTES = rf"^\[\s*{_BYTE}(?:\s*,\s*{_BYTE})*\s*\]$"
# digits of a Unix time: seconds, milliseconds, microseconds, nanoseconds
UNITS = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}


def unwrapped(lines: pl.DataFrame) -> pl.DataFrame:
    """Replace `raw` by the line inside, and fill the string columns COLUMNS.

    `told_t` is RFC 3339. What is not told is null; columns that are there already, from
    a file of records, are kept. A traceback and a step beside the line follow it. An
    object with a rank and no line is the line.
    """
    lines = with_nulls(lines, dict.fromkeys(COLUMNS, pl.String()))
    if not lines["raw"].str.contains("{", literal=True).any():
        return lines
    inside = bared(lines["raw"])
    wrapped = inside.str.contains(OBJECT) & inside.str.contains(r"\}\s*$")
    if not wrapped.any():
        return lines
    told = lines.with_row_index("_row")
    objects = told.with_columns(inside).filter(wrapped)
    said = objects.select(
        "_row",
        _line(objects),
        *(_first(paths, objects).alias(f"_{c}") for c, paths in TOLD.items()),
    ).with_columns(pl.col("_told_level").str.to_uppercase())
    said = said.filter(pl.any_horizontal(pl.col("_line", "_told_rank").is_not_null()))
    said = said.with_columns(moment(pl.col("_told_t")))
    return (
        told.join(said, on="_row", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("_line", "raw").alias("raw"),
            *(pl.coalesce(f"_{c}", c).alias(c) for c in COLUMNS),
        )
        .select(lines.columns)
    )


def as_cri(raw: pl.Expr) -> pl.Expr:
    """Convert lines of Docker's json-file driver to CRI lines, with their P or F.

    `2026-…Z stderr F text`; a damaged line stays as it is.
    """
    log = raw.str.json_path_match("$.log")
    tag = pl.when(log.str.ends_with("\n")).then(pl.lit("F")).otherwise(pl.lit("P"))
    parts = (
        raw.str.json_path_match("$.time"),
        raw.str.json_path_match("$.stream"),
        tag,
        log.str.strip_suffix("\n"),
    )
    return pl.coalesce(pl.concat_str(*parts, separator=" "), raw)


def of_stream(told: pl.Expr) -> pl.Expr:
    """Return the host in CloudWatch's name of a stream, of SageMaker's streams."""
    return told.str.extract(_ALGO)


def moment(told: pl.Expr) -> pl.Expr:
    """Return times as RFC 3339: a Unix time by its digits, others as they are."""
    number = told.str.extract(r"^(\d{10}(?:\d{3}){0,3})(?:\.\d+)?$")
    unit = number.str.len_chars().replace_strict(UNITS, default=None)
    nanoseconds = number.cast(pl.Int64, strict=False) * unit
    stamp = nanoseconds.cast(pl.Datetime("ns")).dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ")
    return pl.coalesce(stamp, told)


def _line(objects: pl.DataFrame) -> pl.Expr:
    """Return the line of each object, as `_line`, with its step and its traceback."""
    line = _first(LINE, objects).str.strip_chars_end("\r\n")
    number = _first(STEP, objects)
    step = number.str.extract(r"^(\d{1,9})$")
    step = pl.when(~line.str.contains(NUMBERED)).then(" step=" + step)
    raised = pl.lit(None, pl.String)
    if objects["raw"].str.contains(HEAD, literal=True).any():
        text = pl.concat_str(
            pl.lit('"'), pl.col("raw").str.extract(_RAISED), pl.lit('"')
        )
        beside = ~line.str.contains(HEAD, literal=True).fill_null(False)
        raised = pl.when(beside).then("\n" + text.str.json_decode(pl.String()))
    parts = (line, step.fill_null(""), raised.str.strip_chars_end().fill_null(""))
    return pl.concat_str(*parts).alias("_line")


def _spelled(value: pl.Expr) -> pl.Expr:
    """Return the text of a line that is spelled as a list of bytes; else null."""
    listed = pl.when(value.str.contains(_BYTES)).then(value)
    data = listed.str.json_decode(pl.List(pl.UInt8())).cast(pl.Binary)
    return data.cast(pl.String, strict=False)


def _first(paths: tuple[str, ...], among: pl.DataFrame) -> pl.Expr:
    """Return the first string or number that one of some JSON paths leads to.

    A path costs a parse per line, so one whose key occurs nowhere is not followed.
    """
    values = [pl.lit(None, pl.String)]
    for path in paths:
        key = path.removesuffix('"]').rpartition('["' if "[" in path else ".")[2]
        if not among["raw"].str.contains(f'"{key}"', literal=True).any():
            continue
        value = pl.col("raw").str.json_path_match(path)
        value = of_stream(value) if path == STREAM else value
        values.append(pl.when(~value.str.contains(_NESTED)).then(value))
        if path == JOURNAL:
            values.append(_spelled(value))
    return pl.coalesce(values)
