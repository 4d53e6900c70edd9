"""What the parts of a training step are, by the words in the names that loops print.

A rank that loads or computes is at work itself; in a reduction, a barrier or a receive
it waits for others. A backward pass holds the reductions of its gradients, unless a
part of the step tells these apart.
"""

from __future__ import annotations

import polars as pl

DATA, COMPUTE, BACKWARD, WHOLE = "data", "compute", "backward", "whole"
OTHER = "other"  # what a step has besides
UNSAID = "unsaid"  # what its name does not tell
STEP = "step"  # in the name of a part: the optimizer's, or all
PHASE = "phase"  # forward and backward together, with what stages wait in between
REDUCE, WAIT = "reduce", "wait"  # named collectives, and what may be anything
WAITS = (REDUCE, WAIT)

_FORWARD, _BACKWARD = "fwd|forward|fprop", "bwd|backward|bprop|backprop"
_WORDS = {
    DATA: r"data|dl|data_?load\w*|dataset|loader|loading|load_time|fetch\w*|prefetch"
    r"|h2d|batch_(?:input|generator|wait|ready)(?:_after)?|inputs?(?:_\w+)?|io|read(?:er)?"
    r"|prep|preproc\w*|dequeue|feed"
    r"|(?:get|next|iter)_(?:\w+_)?batch(?:es)?",
    WAIT: r"waits?|waiting|peers?|stall(?:s|ed)?(?:_on)?|block(?:ed|ing)?|comm\w*|nccl"
    r"|barrier|recv|send|exch\w*|idle|non_?compute|sync_time|unshard",
    REDUCE: r"(?:grad_?)?sync|collectives?|ar|all_?reduce\w*|reduce\w*|gather|scatter"
    r"|all_?gather|a2a|all_?to_?all|broadcast|bcast|clip\w*|unscale\w*|grad_norm_time",
    PHASE: rf"(?:fw?|{_FORWARD})_(?:bw?|{_BACKWARD})",
    COMPUTE: rf"fw?|{_FORWARD}|training_step|compute|busy|model_time|experts?"
    rf"|(?:{_BACKWARD})_inner",
    BACKWARD: rf"bw?|{_BACKWARD}|autograd",
    OTHER: r"opt|optim\w*|upd\w*|adam\w*|apply|step",
}
# of a part that has a line of its own, over some steps, or of the last one again; and
# of a step's result, which is no time
_AGAIN = (
    r"^(?:last|avg|mean|max|min)_"
    r"|(?:^|_)(?:loss|lr|acc|ppl|tokens|samples|ts|timestamp|eta|remaining|epoch|start|begin"
    r"|mem|memory|gi?b|mi?b|bytes|tps|tflops|mfu)(?:_|$)|(?:^|_)rank$"
)
# Lightning's `training_step` is the forward pass; with a unit in its name it may be all
_WHOLE = (
    r"(?:train_)?(?:(?:step|it|iter|iteration|batch|total|elapsed|end_to_end)_time|tot(?:al)?|sum)"
    r"|time|dt|wall(?:_time)?|iteration|iter|time_(?:metrics_)?(?:step|iter|total|end_to_end)(?:_time)?"
    r"|training_(?:step|iteration)_time|batch_total|run_training_batch(?:_time)?"
)


def named(name: pl.Expr) -> pl.Expr:
    """Return names in lower case with `_` between words; of `t_x`, `x_ms`: `x_time`."""
    words = name.str.to_lowercase().str.replace_all(r"[^a-z0-9]+", "_")
    timed = words.str.strip_chars("_").str.replace(
        r"^(?:t_(.+)|(load))$", "${1}${2}_time"
    )
    return timed.str.replace(r"_(?:[mun]?s|t|sec|secs|seconds|wall)$", "_time")


def kinds(name: pl.Expr) -> pl.Expr:
    """Return what the part of a step with a name, as `named` gives it, is.

    UNSAID if its words tell nothing, null if it is no part. Where the words of two
    kinds meet the first of `_WORDS` counts: `data_wait` is data.
    """
    patterns = {
        WHOLE: rf"^(?:{_WHOLE})$",
        **{kind: rf"(?:^|_)(?:{words})(?:_|$)" for kind, words in _WORDS.items()},
    }
    found = pl.coalesce(
        pl.when(name.str.contains(pattern)).then(pl.lit(kind))
        for kind, pattern in patterns.items()
    )
    return pl.when(~name.str.contains(_AGAIN)).then(found.fill_null(UNSAID))


def is_backward(name: pl.Expr) -> pl.Expr:
    """Whether a part of a step is a backward pass, or some of it."""
    return name.str.contains(rf"(?:^|_)bw?(?:_|$)|{_BACKWARD}")
