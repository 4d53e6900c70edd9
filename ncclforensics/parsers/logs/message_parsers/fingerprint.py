"""torch's `Detected mismatch between collectives on ranks` (ProcessGroupWrapper.cpp).

With TORCH_DISTRIBUTED_DEBUG=DETAIL, a rank that compared its call with its peers'
prints its own fingerprint, and that of the first peer that differs (since 1.13). Ranks
are group ranks. A fingerprint without tensors lacks a comma
(`SequenceNumber=0OpType=BARRIER`). If the two serialised fingerprints have different
lengths, torch decodes the peer's operation from the length, and its sequence number is
0. A terminal wraps this long line anywhere; an incomplete fingerprint is not read.
"""

from __future__ import annotations

import re
from contextlib import suppress

import pyparsing as pp

from ncclforensics.parsers.limits import MAX_FINGERPRINT
from ncclforensics.parsers.logs.message_parsers.limits import capped

# OpType 3 and 6 to 14: a length of that many numbers is decoded as one of these. The
# fingerprint of a call without tensors has length 3, so between two of them such a name
# may be a length, too.
_LENGTHS_READ_AS_OPS = (
    *("REDUCE", "ALLGATHER_COALESCED", "GATHER", "SCATTER", "REDUCE_SCATTER"),
    *("ALLTOALL_BASE", "ALLTOALL", "SEND", "RECV", "RECVANYSOURCE"),
)
# OpTypes.hpp
_OPS = (
    *("BROADCAST", "ALLREDUCE", "ALLREDUCE_COALESCED", "REDUCE", "ALLGATHER"),
    *("_ALLGATHER_BASE", "ALLGATHER_COALESCED", "GATHER", "SCATTER", "REDUCE_SCATTER"),
    *("ALLTOALL_BASE", "ALLTOALL", "SEND", "RECV", "RECVANYSOURCE", "BARRIER"),
    *("_REDUCE_SCATTER_BASE", "COALESCED", "_ALLREDUCE_SPARSE", "UNKNOWN"),
    "REDUCE_SCATTER_TENSOR_COALESCED",
)
COLUMNS = (
    "group_rank",
    "seq",
    "op",
    "shape",
    "dtype",
    "device",
    "is_peer",
    "op_reliable",
    "differs",
)
KINDS = {
    "shape": "ints",
    "differs": "strings",
    "is_peer": "bool",
    "op_reliable": "bool",
}
GLUE = ("", " ", "\n")  # wrapped within a word, wrapped at a space, not wrapped
_ASPECTS = {
    "Sequence number": "seq",
    "Op type": "op",
    "Tensor shapes": "shape",
    "Tensor dtypes": "dtype",
    "Tensor devices": "device",
}

LONGEST = MAX_FINGERPRINT  # characters that are read
_INT = pp.Word(pp.nums, max=18).set_parse_action(lambda found: int(found[0]))
# one regex: pyparsing elements would be slow for each number
_INTS = pp.Regex(
    r"[0-9]{1,18}(?![0-9])(?:\s*,\s*[0-9]{1,18}(?![0-9]))*"
).set_parse_action(lambda found: [int(number) for number in found[0].split(",")])
_COMMA = pp.Suppress(pp.Opt(","))
_SEQ = pp.Suppress("SequenceNumber=") + _INT("seq") + _COMMA
_OP = pp.Suppress("OpType=") + pp.Regex(rf"(?:{'|'.join(_OPS)})(?=[,)\n])")("op")
_SHAPE = (
    pp.Suppress("TensorShape=[") + pp.Group(pp.Opt(_INTS))("shape")
) + pp.Suppress("]")
_DTYPE = pp.Suppress("TensorDtypes=") + pp.SkipTo(
    pp.Regex(r",\s*TensorDeviceTypes=|\)")
)("dtype")
_DEVICE = (
    pp.Suppress("TensorDeviceTypes=")
    + pp.Opt(pp.Suppress(pp.Regex(r"TensorOptions\([^\n]*?device=")))
    + pp.Word(pp.alphanums + ":")("device")
)
_TENSORS = _COMMA + _SHAPE + pp.Opt(_COMMA + _DTYPE) + pp.Opt(_COMMA + _DEVICE)
_FINGERPRINT = (
    pp.Suppress("CollectiveFingerPrint(") + pp.Opt(_SEQ) + _OP + pp.Opt(_TENSORS)
)
_SIDE = (
    pp.Suppress(pp.Keyword("Rank"))
    + _INT("group_rank")
    + pp.Suppress(pp.Literal("is running") + pp.Opt("inconsistent") + "collective:")
    + _FINGERPRINT
    + pp.Empty().set_parse_action(lambda _, end, __: end)("end")
)
_BEGINS = re.compile(r"(?<![\w$])Rank\s+\d+\s*is running\b")
_DIFFERS = "Collectives differ in the following aspects:"


def parse(text: str) -> list[dict[str, object]]:
    """Return the printing rank's fingerprint, then its peer's if it is printed.

    Rows: `group_rank`, `seq`, `op`, `shape` (of the first tensor, null without any),
    `dtype`, `device`, `is_peer`, `op_reliable` (False if the peer's `op` and `seq` may
    be decoded from a length), `differs` (list of seq, op, shape, dtype, device).
    """
    text = capped(text)[:LONGEST]
    ways = dict.fromkeys(text.replace("\n", glue) for glue in GLUE)
    sides = max(map(_sides, ways), key=len)
    differs = _differing(text)
    own_has_tensors = bool(sides) and "shape" in sides[0]
    return [
        _row(side, bool(place), own_has_tensors) | {"differs": differs}
        for place, side in enumerate(sides)
    ]


def _sides(text: str) -> list[pp.ParseResults]:
    """Parse at most two fingerprints, only where one begins, because that is faster."""
    sides: list[pp.ParseResults] = []
    behind = 0
    for begin in _BEGINS.finditer(text):
        if len(sides) == 2:
            break
        if begin.start() >= behind:
            with suppress(pp.ParseException):
                sides.append(_SIDE.parse_string(text[begin.start() :]))
                behind = begin.start() + sides[-1]["end"]
    return sides


def _row(
    side: pp.ParseResults, is_peer: bool, own_has_tensors: bool
) -> dict[str, object]:
    told = side.as_dict()
    may_be_a_length = own_has_tensors or told["op"] in _LENGTHS_READ_AS_OPS
    return {
        "group_rank": told["group_rank"],
        "seq": told.get("seq"),
        "op": told["op"],
        "shape": told.get("shape"),
        "dtype": str(told["dtype"]).strip() if "dtype" in told else None,
        "device": told.get("device"),
        "is_peer": is_peer,
        "op_reliable": not (is_peer and "shape" not in told and may_be_a_length),
    }


def _differing(text: str) -> list[str]:
    aspects = text.partition(_DIFFERS)[2]
    return [name for words, name in _ASPECTS.items() if words in aspects]
