"""Determines what a file is from its first bytes, never from its name.

A dump is recognised by the keys at its head, even if it is truncated. Text is
recognised by its share of printable characters, so a few bad bytes, colour codes or a
run of NULs left by a crash do not hide a log. Other files are named by their magic.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ncclforensics.sources import json_heads, pickle_heads
from ncclforensics.sources.magics import magic_of

KINDS = (
    "flight_recorder_pickle",
    "flight_recorder_json",
    "log",
    "error_json",
    "ras_json",
    "pyspy_json",
    "slurm_json",
    "fleet_json",
    "layout_json",
    "kubernetes",
    "collected_json",
    "environment",
    "report",
    "empty",
    "pickle",
    "archive",
    "unknown",
)

# random bytes are about 45 % non-text; a log with a damaged block has far fewer
TEXT_SHARE = 0.7

NUL_RUN = re.compile(rb"\0{16,}")
# kubectl prints the keys in order: a list's items come before its kind
KUBERNETES = re.compile(rb"(?m)^(?:- )?(?:  )?kind: \"?(Pod|Event|List|PodList)\b")
# env, or /proc/PID/environ: a variable a line, among them one of a launcher or of NCCL
_VARIABLE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")
_OF_A_JOB = re.compile(
    rb"(?:RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|NCCL_\w+|SLURM_PROCID"
    rb"|OMPI_COMM_WORLD_RANK)="
)
LEAST_VARIABLES, VARIABLES_SHARE = 4, 0.9  # values may have several lines
CONTROLS = bytes([*range(9), *range(14, 27), *range(28, 32), 127])  # no ESC: colours
WIDE = (  # the longer mark first: UTF-32 begins like UTF-16
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


class Kind(NamedTuple):
    """A kind, and in one line the reason for it."""

    kind: str
    why: str


def kind_of(head: bytes, tail: bytes = b"") -> Kind:
    """Return the kind of a file given its first bytes and, after NULs, its last."""
    if not head:
        return Kind("empty", "0 bytes")
    if why := pickle_heads.dump(head):
        return Kind("flight_recorder_pickle", why)
    if why := pickle_heads.pickle(head):
        return Kind("pickle", f"{why} without any key of a Flight Recorder dump")
    if why := magic_of(head):
        return Kind("unknown", why)
    if not head.strip(b"\0"):
        if not tail.strip(b"\0"):
            return Kind("unknown", "nothing but NUL bytes")
        kind, why = _text(tail)
        return Kind(kind, f"NUL bytes, at the end {why}")
    for mark, encoding in WIDE:
        if head.startswith(mark):
            share = _share(head.decode(encoding, "replace"))
            if share >= TEXT_SHARE:
                return Kind("log", f"{encoding.upper()} text: {share:.0%} printable")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"[") and (found := json_heads.json_kind(text)):
        return Kind(*found)
    if text.startswith(b"apiVersion: ") and (named := KUBERNETES.search(text)):
        return Kind("kubernetes", f"YAML with apiVersion and kind {named[1].decode()}")
    if why := _environment(head):
        return Kind("environment", why)
    return _text(head)


def _environment(head: bytes) -> str | None:
    """Return why a file is the environment of a process, or None."""
    if not _VARIABLE.match(head):
        return None
    raw = b"\0" in head
    told = [part for part in head.split(b"\0" if raw else b"\n") if part]
    named = sum(_VARIABLE.match(part) is not None for part in told)
    ours = sum(_OF_A_JOB.match(part) is not None for part in told)
    if named < LEAST_VARIABLES or not ours or named < VARIABLES_SHARE * len(told):
        return None
    form = "as /proc/PID/environ" if raw else "one a line"
    return f"{named} variables, {form}, {ours} of a launcher or NCCL"


def _text(head: bytes) -> Kind:
    plain = NUL_RUN.sub(b"", head).strip(b"\0") if b"\0" in head else head
    controls = len(plain) - len(plain.translate(None, CONTROLS))
    # a character truncated at the end of the head is not damage
    broken = 0 if plain.isascii() else plain.decode("utf-8", "replace").count("\ufffd")
    share = 1 - min(len(plain), controls + max(0, broken - 1)) / len(plain)
    percent = int(share * 100)
    if len(plain) < 4 and controls + broken:
        share = 0.0
    if share < TEXT_SHARE:
        return Kind(
            "unknown", f"binary: {percent} % printable, no known file signature"
        )
    nuls = ", with runs of NUL bytes" if len(plain) < len(head) else ""
    return Kind("log", f"text: {percent} % printable{nuls}")


def _share(text: str) -> float:
    good = sum(char.isprintable() or char.isspace() or char == "\x1b" for char in text)
    return good / max(len(text), 1)
