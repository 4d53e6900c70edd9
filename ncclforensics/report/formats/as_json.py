"""Renders the report as JSON and JSON lines, loads a saved one, and makes the schema.

Keys are in the order of the structs, and the only floats, the weights of suspects, are
rounded to three places, so the same report always yields the same bytes.
`ncclforensics schema` prints schemas/report-v1.json.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import msgspec

from ncclforensics.model.errors import UsageError
from ncclforensics.report.contract import SCHEMA_VERSION, Line, Report
from ncclforensics.report.sanitize import line, paragraphs

if TYPE_CHECKING:
    from pathlib import Path

# size limit of a saved report; one on 100,000 files has about 40 MB
MAX_BYTES = 256 * 1024**2


def render_json(report: Report) -> str:
    """Return the report as indented JSON that ends with a newline."""
    return indented(report)


def indented(value: object) -> str:
    """Return what msgspec can encode as indented JSON that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def render_jsonl(report: Report) -> str:
    """Return one line per finding, in order of blame, or one line without a finding."""
    told = (report.schema_version, report.tool, report.outcome)
    lines = (
        Line(*told, finding, () if number else report.suspects)
        for number, finding in enumerate(report.findings or (None,))
    )
    return "".join(msgspec.json.encode(line).decode() + "\n" for line in lines)


def decode(data: bytes) -> Report:
    """Decode a saved report, and sanitize its texts like those of a new one.

    Raises msgspec.DecodeError (msgspec.ValidationError if it is valid JSON) on anything
    that violates the contract, including unknown keys.
    """
    try:
        told = msgspec.json.decode(data, type=Report)
    except (UnicodeDecodeError, RecursionError) as caught:
        raise msgspec.DecodeError(str(caught)) from caught
    return msgspec.convert(_cleaned(msgspec.to_builtins(told)), Report)


def _cleaned(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        clean = paragraphs if key == "explanation" else line
        return clean(value, len(value))
    if isinstance(value, dict):
        return {name: _cleaned(member, name) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_cleaned(member) for member in value)
    return value


def load(path: Path) -> Report | None:
    """Load a saved report; returns None if the file does not look like one.

    Raises UsageError on a file that starts like a report but violates the contract.
    """
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            head = file.read(100)
            if not re.match(rb'\s*\{\s*"schema_version"\s*:', head):
                return None
            data = head + file.read(MAX_BYTES)
    except OSError:
        return None  # discovery reports why
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} has more than {MAX_BYTES >> 20} MiB: no report has")
    try:
        return decode(data)
    except msgspec.DecodeError as caught:
        raise UsageError(f"{path} is no report of this version: {caught}") from caught


def schema() -> str:
    """Return the JSON Schema of the report, indented, ending with a newline."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ncclforensics report, version {SCHEMA_VERSION}",
        **msgspec.json.schema(Report),
    }
    for struct in document["$defs"].values():
        # msgspec before 0.23, on Python before 3.13, leaves the docstring's indentation
        if "description" in struct:
            struct["description"] = inspect.cleandoc(struct["description"])
    return indented(document)
