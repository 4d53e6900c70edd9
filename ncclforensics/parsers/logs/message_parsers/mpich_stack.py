"""The error stack below an `MPICH ERROR` line: which call failed, and in which network.

`PMPI_Isend(160)......: MPI_Isend(buf=…) failed` comes first, the innermost function
last; a function `MPIDI_OFI_…` or `MPIDI_UCX_…` is of the network library, and quotes
its error: `OFI poll failed (…:MPIDI_OFI_handle_cq_error:Input/output error - …)`.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("mpi_call", "network", "error")
_CALL = re.compile(r"\bP?(MPI_[A-Z]\w+)", re.ASCII)
_NETWORK = re.compile(r"\bMPIDI_(OFI|UCX)_\w+")
_ERROR = re.compile(r":MPIDI_\w+:\s*([^)]+)\)|MPIDI_UCX_\w+ ([A-Z][a-z/ ]+)\)")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: the program's `mpi_call`, `network` and its `error`, or null."""
    cut = capped(text)
    call, network = _CALL.search(cut), _NETWORK.search(cut)
    error = _ERROR.search(cut)
    return [
        {
            "mpi_call": call[1] if call else None,
            "network": network[1] if network else None,
            "error": (error[1] or error[2]).strip() if network and error else None,
        }
    ]
