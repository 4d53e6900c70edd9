"""What the two outcomes without a verdict mean, for `explain`."""

from __future__ import annotations

from ncclforensics.report.text_layout import Row, paint, wrap

INCONCLUSIVE = (
    "inconclusive (outcome)",
    "Something in this evidence failed or stopped, and the evidence does not show what "
    "caused it. Nobody is accused.",
    "The answer names suspects if there are any, the one to look at first on top. A "
    "suspect is not a culprit: it is the rank that most of the others wait for, or of "
    "which the least is known.",
    "`unchecked` under -v lists what could not be checked, and which file or setting "
    "would have shown it. What settles most of these: stderr of every rank (torchrun "
    "--log-dir DIR --redirects 3), the Flight Recorder dumps of every rank "
    "(TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1), and the kernel log of "
    "the hosts.",
    "It also stands where two explanations fit equally well, and where reading was "
    "interrupted.",
)
NO_FAILURE = (
    "no-failure (outcome)",
    "Nothing in this evidence failed: no error, no exit other than 0, no rank that "
    "waits for another.",
    "It is not a clean bill of health. It speaks of the files that were read; "
    "`ncclforensics evidence PATH` lists them, and what of each was recognised. A job "
    "that is only slow, or a failure that only a missing file shows, is not seen.",
)
PAGES = {"inconclusive": INCONCLUSIVE, "no-failure": NO_FAILURE}


def render_outcome(name: str, *, width: int = 80, colour: bool = False) -> str:
    """Return the page of an outcome, filled to `width`; KeyError on another name."""
    title, *paragraphs = PAGES[name]
    rows = [Row("", title, "bold")]
    for n, text in enumerate(paragraphs):
        rows += [Row("", "")] if n else []
        rows += [Row("", part) for part in wrap(text, width)]
    return paint(rows, colour=colour)
