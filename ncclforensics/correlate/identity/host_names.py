"""Maps the names that different programs print of a host to one.

A launcher names a pod; a process in it prints the name of its host. NCCL cuts a host
name at its first dot and torchelastic does not, so `gpu0001` and
`gpu0001.cluster.local` are one host. If another writer left its line unterminated, that
text precedes NCCL's header and looks like part of the host name: `-1gpu0001`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import (
    addresses,
    announced_files,
    node_folders,
    placements,
    stated,
)
from ncclforensics.model.frames import remembered
from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# what people write over a name, and programs that know none
_OVER = (
    r"[x*#_.-]{3,}$|(?:my)?host(?:name)?$|\W*redacted\W*$"
    r"|(?:host(?:name)?[-_]?)?unknown(?:[-_]?host)?$"
)
# names that every machine has for itself
_ITSELF = r"localhost[46]?(?:\.|$)|127\.|::1$|0\.0\.0\.0$|::$"
NOWHERE = rf"(?i)^(?:{_ITSELF}|{_OVER})"
PROCESS = ["source", "pid"]
AGREE = 2  # files that are named by the host of their lines
NUMBERED = r"^[A-Za-z].*\d$"
CLEAR = r"(?:-\d+|\d{2,})$"  # `gpu3` may be a device
NODES = ("slurm.node", "slurm.sinfo.reasons")  # tables of a cluster's nodes
ENDED = "slurm.task_ended"  # with one node, or the list of several


def same(frames: Frames) -> Frames:
    """Return `frames` with one spelling for each host."""
    told = _written_over(frames)
    told = addresses.by_name(_of_aliases(_described(_unglued(told))))
    told = _short(told)
    named = _by_path(told)
    # a path may name a host by more than its name, as lines do
    return told if named is told else _short(named)


def _written_over(frames: Frames) -> Frames:
    """Remove what people write over host names: it names none, and not always one."""
    told = [frames[name]["host"] for name in ("events", "exits")]
    hosts = pl.concat(told).drop_nulls()
    if hosts.is_empty():
        return frames
    hosts = hosts.unique()
    over = hosts.filter(hosts.str.contains(rf"(?i)^(?:{_OVER})"))
    if over.is_empty():
        return frames
    none = dict.fromkeys(over.sort())
    return frames.each(
        lambda frame: (
            frame.with_columns(pl.col("host").replace(none))
            if "host" in frame.columns
            else frame
        ),
    )


def _of_aliases(frames: Frames) -> Frames:
    """Give the lines of a pod the host that its processes print, else the pod's name.

    Likewise for other aliases, as the name of a folder. A host without a pid may be
    another one that a line tells of. An alias whose lines name several hosts is a host
    of its own.
    """
    key = ["host_alias", "host"]
    told = [frames[name].select(*key, "pid") for name in ("events", "exits")]
    printed = pl.concat(told).drop_nulls("host_alias")
    if printed.is_empty():
        return frames
    said = [stated.stated(frames), frames.message(announced_files.RECORD)]
    told = [printed.drop_nulls(), *said]
    pairs = pl.concat([each.select(key) for each in told]).drop_nulls().unique()
    pairs = pairs.unique("host_alias", keep="none")
    is_long = pl.col("host").str.starts_with(pl.col("host_alias") + ".")
    hosts = dict(pairs.filter(~is_long).select(key).iter_rows())
    hosts |= _only_node(frames)

    def name(frame: pl.DataFrame) -> pl.DataFrame:
        if "host" not in frame.columns:
            return frame
        names = [c for c in ("host", "host_alias") if c in frame.columns]
        return frame.with_columns(pl.coalesce(names).replace(hosts).alias("host"))

    return frames.each(name)


def _only_node(frames: Frames) -> dict[str, str]:
    """Return the only pod and the only machine that anything tells of, if it is so.

    A pod's name is that of no machine. Where one is known by its kernel's log or its
    list of processes, and no process of the only pod prints another, that is its node.
    """
    columns = ["host", "host_alias", "in_pod"]
    told = pl.concat([frames[name].select(columns) for name in ("events", "exits")])
    is_pod = pl.col("in_pod").is_not_null()
    pods = told.filter(is_pod)
    names = pl.coalesce("host", "host_alias").alias("host")
    machines = [told.filter(~is_pod).select(names)["host"], frames["sources"]["host"]]
    nodes = pl.concat(machines).drop_nulls().unique()
    alone = pods["host_alias"].drop_nulls().unique()
    if alone.len() != 1 or nodes.len() != 1 or pods["host"].count():
        return {}
    return {alone[0]: nodes[0]}


def _described(frames: Frames) -> Frames:
    """Set the host of `kubectl describe pod` lines to the pod that they describe.

    One file may describe many pods, so its text takes precedence over its name.
    """
    heads = frames.message("launchers.kubernetes.pod").select(
        "source", "line", pl.col("host").alias("_pod")
    )
    if heads.is_empty():
        return frames
    alone = heads.unique("source", keep="none").drop("line")
    heads = heads.sort("line")

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        if not {"source", "host"} <= set(frame.columns) or frame.is_empty():
            return frame
        rows = frame.with_row_index("_row")
        told = rows.filter(pl.col("source").is_in(heads["source"].implode()))
        if "line" in frame.columns:
            told = told.sort("line").join_asof(
                heads, on="line", by="source", check_sortedness=False
            )
        else:
            told = told.join(alone, on="source")
        told = told.select("_row", "_pod")
        return (
            rows.join(told, on="_row", how="left", maintain_order="left")
            .with_columns(pl.coalesce("_pod", "host").alias("host"))
            .drop("_row", "_pod")
        )

    return frames.each(fill)


def _by_path(frames: Frames) -> Frames:
    """Give files the host named in their path, if other evidence knows such a host.

    Names like `a01` are too short to be recognized as a host on their own. The longest
    counts: `gpu-1` is part of `gpu-1-2`. Where files are named by the hosts that their
    lines tell, `a01.log` and `a02.log`, a file `a03.log` is named by its host as well.
    """
    unnamed = frames["sources"].filter(pl.col("host").is_null())
    if unnamed.is_empty():
        return frames
    known = pl.concat([_known(frames), _named_alike(frames)]).unique()
    # a folder's name is the best that is known only where it holds none of those
    folders = node_folders.names(frames)
    if folders.len():
        names = folders.to_frame("source").select("source", _inside(known))
        holding = names.explode("_host").filter(_stands_alone())["source"]
        bare = folders.filter(~folders.is_in(holding.implode()))
        known = pl.concat([known, bare]).unique()
    if known.is_empty():
        return frames
    size = pl.col("_host").str.len_bytes()
    named = (
        unnamed.select("source", _inside(known))
        .explode("_host")
        .drop_nulls()
        .unique()
        .filter(_stands_alone())
        .filter(size == size.max().over("source"))
        .unique("source", keep="none", maintain_order=True)
    )
    if named.is_empty():
        return frames
    # a file in which another host speaks is not of the one in its name
    heard = frames["events"].select("source", "host").drop_nulls().unique()
    others = heard.join(named, on="source").filter(pl.col("host") != pl.col("_host"))
    named = named.join(others, on="source", how="anti", maintain_order="left")
    named = _as_printed(frames, named)
    if named.is_empty():
        return frames

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        if not {"source", "host"} <= set(frame.columns) or frame.is_empty():
            return frame
        joined = frame.join(named, on="source", how="left", maintain_order="left")
        return joined.with_columns(pl.coalesce("host", "_host").alias("host")).drop(
            "_host"
        )

    return frames.each(fill)


def _inside(names: pl.Series) -> pl.Expr:
    """Return as `_host` the list of those of some names that a `source` holds."""
    wanted = pl.lit(names).implode()
    found = pl.col("source").str.extract_many(wanted, overlapping=True)
    return found.alias("_host")


def _stands_alone() -> pl.Expr:
    """Whether `_host` is a whole word of `source`, and not a part of one."""
    name = pl.col("_host").str.escape_regex()
    edges = pl.lit(r"(?:^|[^A-Za-z0-9])"), pl.lit(r"(?:[^A-Za-z0-9]|$)")
    return pl.col("source").str.contains(pl.concat_str(edges[0], name, edges[1]))


def _as_printed(frames: Frames, named: pl.DataFrame) -> pl.DataFrame:
    """Return `named`, rows `source _host`, with the host that agents print there.

    Theirs is its name, that of the path an alias. A file in which agents of several
    hosts print is of no host.
    """
    if named.is_empty():
        return named
    agents = frames["exits"].filter(pl.col("reported_by") == "torchelastic")
    printed = agents.drop_nulls("host").group_by("source").agg(pl.col("host").unique())
    told = named.join(printed, on="source", how="left", maintain_order="left")
    many, one = pl.col("host").list.len(), pl.col("host").list.first()
    known = told.filter((many == 1) | many.is_null())
    return known.select("source", pl.coalesce(one, "_host").alias("_host"))


def _named_alike(frames: Frames) -> pl.Series:
    """Return the names in paths that differ from those of hosts by a number only.

    Of hosts that their own files are named by, also without their domain; of a store's
    host, if a file has its name and no other; or of several whose names no device has.
    """
    shape = pl.col("host").str.replace_all(r"\d+", "\n").alias("shape")
    pairs = [frames[n].lazy().select("source", "host") for n in ("events", "exits")]
    told = collected(pl.concat(pairs).drop_nulls().unique())
    served = addresses.served(frames)
    if told.is_empty() and served.is_empty():
        return told["host"]
    files = frames["sources"].select("source")
    stored = files.with_columns(_stem().alias("host")).filter(
        pl.col("host").is_in(served.implode())
    )
    if told.is_empty() and stored.is_empty():
        return told["host"]
    holds = pl.col("source").str.contains(pl.col("host"), literal=True)
    bare = pl.col("host").str.split(".").list.first()
    alone = told.unique("source", keep="none").with_columns(
        pl.when(holds).then("host").otherwise(bare).alias("host")
    )
    clear = told.filter(pl.col("host").str.contains(CLEAR))
    some = pl.concat([alone.filter(holds), clear]).filter(
        pl.col("host").str.contains(NUMBERED)
    )
    shapes = some.group_by(shape).agg(pl.col("host").n_unique())
    known = shapes.filter(pl.col("host") >= AGREE)["shape"]
    known = pl.concat([known, stored.filter(holds).select(shape)["shape"]])
    names = [pl.Series("host", [], pl.String)]
    for one in known.unique().sort():
        name = re.escape(one).replace("\\\n", r"\d+")
        told_by = rf"(?:^|[^A-Za-z0-9])({name})(?:[^A-Za-z0-9]|$)"
        names.append(files["source"].str.extract(told_by).alias("host"))
    return pl.concat(names).drop_nulls().unique()


def _stem() -> pl.Expr:
    """Return the name of the file of a `source`, without its ends."""
    return pl.col("source").str.extract(r"([^/]+?)(?:\.[a-z]{2,4})*$")


@remembered
def _known(frames: Frames) -> pl.Series:
    """Return the host names that any evidence tells."""
    told = [frames[name]["host"] for name in ("events", "sources", "exits", "ranks")]
    told += [frames.message(*NODES)["host"], placements.hosts(frames)]
    told.append(addresses.named(frames))
    if "nodes" in (ended := frames.message(ENDED)).columns:
        told.append(ended.filter(~pl.col("nodes").str.contains(r"[\[,]"))["nodes"])
    return pl.concat(told).drop_nulls().unique()


def _short(frames: Frames) -> Frames:
    """Cut off `host` what the evidence has the name without: `gx11.local`, `out.gx11`.

    The former is a domain, the latter what a site puts before hosts in file names.
    """
    known = _known(frames)
    if known.is_empty():
        return frames
    bare, whole = pl.col("bare"), pl.col("long")
    names = collected(
        pl.LazyFrame({"long": known, "bare": known.str.split(".")})
        .explode("bare")
        .filter(bare.is_in(known.implode()) & bare.str.contains(r"[A-Za-z]"))
        .filter(bare != whole)
        .unique("long", keep="none", maintain_order=True)
    )
    if names.is_empty():
        return frames
    cut = dict(names.iter_rows())
    return frames.each(
        lambda frame: (
            frame.with_columns(pl.col("host").replace(cut))
            if "host" in frame.columns
            else frame
        ),
    )


def _unglued(frames: Frames) -> Frames:
    """Strip the text before `host` if its process also prints the name without it.

    A name counts as the bare one if the same process prints it more often in the same
    file.
    """
    told = frames["events"].filter(
        pl.col("pid").is_not_null() & pl.col("host").is_not_null()
    )
    printed = told.group_by(*PROCESS, "host").agg(pl.len().alias("times"))
    torn = printed.filter(pl.len().over(PROCESS) > 1)
    if torn.is_empty():
        return frames
    pairs = torn.join(torn, on=PROCESS, suffix="_bare").filter(
        (pl.col("host") != pl.col("host_bare"))
        & (pl.col("times") < pl.col("times_bare"))
        & pl.col("host").str.ends_with(pl.col("host_bare"))
    )
    right = (
        pairs.sort("times_bare", descending=True)
        .unique([*PROCESS, "host"], keep="first")
        .select(*PROCESS, "host", "host_bare")
    )

    def mend(frame: pl.DataFrame) -> pl.DataFrame:
        if not {*PROCESS, "host"} <= set(frame.columns):
            return frame
        joined = frame.join(
            right, on=[*PROCESS, "host"], how="left", maintain_order="left"
        )
        name = pl.coalesce("host_bare", "host").alias("host")
        return joined.with_columns(name).drop("host_bare")

    return frames.each(mend)
