"""The report as JSON and as JSON lines, the way back, and the schema.

Keys stand in the order of the structs and floats do not occur, so the same report gives
the same bytes. `python -m ncclforensics.report.as_json` prints the schema that is kept
as schemas/report-v1.json.
"""

from __future__ import annotations

import msgspec

from ncclforensics.report.contract import SCHEMA_VERSION, Line, Report


def render_json(report: Report) -> str:
    """Return the report as indented JSON that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def render_jsonl(report: Report) -> str:
    """Return one line per finding in order of blame, or one line without a finding."""
    lines = (
        Line(report.schema_version, report.tool, report.outcome, finding)
        for finding in report.findings or (None,)
    )
    return "".join(msgspec.json.encode(line).decode() + "\n" for line in lines)


def decode(data: bytes) -> Report:
    """Read a saved report.

    Raises msgspec.DecodeError (msgspec.ValidationError where it is JSON) on anything
    that does not fit the contract, unknown keys included.
    """
    return msgspec.json.decode(data, type=Report)


def schema() -> str:
    """Return the JSON Schema of the report, indented, with a newline at its end."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ncclforensics report, version {SCHEMA_VERSION}",
        **msgspec.json.schema(Report),
    }
    encoded = msgspec.json.encode(document, order="sorted")
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema())
