"""The weight of each kind of observation, in bits: the only such table.

One bit is a factor of two between how well two stories explain the evidence. The
numbers are round on purpose: halving or doubling any of them changes less than one
verdict in a hundred (benchmarks/sensitivity.py).
"""

from __future__ import annotations

WEIGHTS: dict[str, tuple[float, str]] = {
    # priors: how rare the kind of story is among hangs
    "missing-rank": (2.0, "a host that stands still in other code is the commonest"),
    "straggler": (3.0, "a timeout that passes before a slow rank comes is common"),
    "gpu-stall": (3.0, "a GPU that stops while its host goes on"),
    "mismatch": (3.0, "another operation or size under one number"),
    "off program": (3.0, "a call made or left out where the peers' programs differ"),
    "moved": (0.5, "a call made before its turn is both left out and made"),
    "stuck-in-collective": (4.0, "all came: network or GPU, named by other evidence"),
    "died": (2.0, "a process that a fault ended is waited for in vain"),
    "lost": (6.0, "a process that died and left neither dump nor line"),
    "uncollected": (8.0, "others left nothing either: what was collected is a part"),
    "running": (8.0, "dumps are taken because a job hangs, seldom while it runs"),
    "slow job": (4.0, "a job that waits for a slow rank is dumped for that reason"),
    "slow before": (6.0, "few jobs that hang had waited for a slow rank all the time"),
    "slow one waits": (10.0, "who comes last all the time has come before others now"),
    "long wait": (8.0, "between two calls no rank waits for long, by its file's time"),
    "older": (2.0, "a host that is behind as well may only have dumped earlier"),
    "early file": (12.0, "a dump of an earlier moment shows nothing of the stop"),
    "elsewhere": (14.0, "a cause that none of this evidence shows"),
    "unseen wait": (2.0, "a rank that nothing shows waits for a cause that is shown"),
    # culprits
    "culprit": (3.0, "one more rank, host or stage that failed by itself"),
    "kin": (0.25, "one more rank of a host, stage or group that failed as a whole"),
    "most": (6.0, "the program is what most ranks do: few have left it"),
    # evidence that a story requires and that is absent, or that it does not explain
    "unexplained wait": (4.0, "a rank that waits although the story lets it go on"),
    "unexplained idle": (6.0, "a rank that waits for nobody and makes no calls"),
    "unlike signature": (12.0, "members differ in a call, and the story ignores it"),
    "same signature": (12.0, "members agree in a call that the story calls unlike"),
    "surprise": (1.0, "each bit by which a rank left its program, unexplained"),
    "no surprise": (1.0, "each bit that a deviation lacks, up to `expected`"),
    "no history": (2.0, "a deviation that no history shows"),
    "timed out itself": (12.0, "who printed a timeout waited, and was not absent"),
    "mute": (5.0, "messages that the recorder leaves out may hold the rank"),
    "rooted": (5.0, "members may finish a rooted operation before others begin"),
    "halves": (8.0, "both sides post as many halves between two common calls"),
    "named place": (3.0, "functions that evaluate, log, save; or end an epoch"),
    "first rank": (1.5, "conditions are most often on the first rank"),
    "barrier": (1.5, "barriers stand behind loops"),
    "said over": (4.0, "its own log says that its loop is over, and no other's does"),
    "odd words": (
        3.0,
        "its last line is one that no peer ends with, and it is blameless",
    ),
    "in the loop": (
        5.0,
        "a place above the loop's last line, or where gradients are reduced",
    ),
    "above the step": (
        2.0,
        "a caller of the step's function may hold the loop, or not",
    ),
    "known elsewhere": (4.0, "a call that all have made, behind a loop"),
    "made by all": (6.0, "others have made the call too, or another under its number"),
    "came before": (8.0, "who differs in a call has made what comes before it"),
    "not begun": (4.0, "no network holds up a call that no GPU has begun"),
    "late": (8.0, "a rank came when its peers' timeout had passed, unexplained"),
    "host gone": (8.0, "a live host writes its dumps when all others do"),
    "idle": (3.0, "a rank that nobody waits for yet, and that is in no call itself"),
    "ended": (6.0, "who exited normally does not stand anywhere"),
    "came back": (3.0, "what was skipped is made right behind"),
}

CAP = 12.0  # bits of surprise; above that, the model cannot tell
LAGS = 3.0  # bits, for a rank behind most ranks in groups of the same description
MOST = 4  # ranks of one kind that count: more contradict a story no further
NOISE = 2.0  # bits by which healthy ranks differ
EXPECTED = 4.0  # bits that a deviation shows where there is history
POSSIBLE, LIKELY, CERTAIN = 0.5, 3.0, 8.0  # margins, in bits
TIE = 1.0  # bits; two stories that are no further apart are equally good


def bits(name: str, times: float = 1.0) -> float:
    """Return the bits that an observation, `times` over, costs a story."""
    return WEIGHTS[name][0] * times
