"""Small logs without a cause are read again: lines joined, and retold ones."""

import pytest

from log_lines import timeout, verdict

BROKEN = {
    "preempted": (
        "slurmstepd: error: *** JOB 50917 ON\n"
        "   gpu0002 CANCELLED AT 2026-08-20T10:00:00 DUE TO PREEMPTION ***\n"
    ),
    "missing-env": (
        "ValueError: Error initializing torch.distributed using env:// rendezvous:\n"
        "environment variable MASTER_PORT expected, but not set\n"
    ),
}
RETOLD = {
    "shape-mismatch": (
        "we see another size:\n"
        "Rank 2: _REDUCE_SCATTER_BASE, TensorShape=[4096]\n"
        "Rank 1: _REDUCE_SCATTER_BASE, TensorShape=[512]\n"
    ),
    "collective-mismatch": (
        "Rank 2: ALLREDUCE, TensorShape=[8]\nRank 1: BROADCAST, TensorShape=[8]\n"
    ),
    "crashed-rank": (
        "rank 2 wirft `hydra.errors.MissingConfigException: no config named base`,\n"
        "die anderen warten\n"
    ),
}
ITEMS = {  # as somebody writes in an incident: who, and the words that tell the class
    "gpu-fault": ("03:14 gpu0012: Xid 79, GPU has fallen off the bus", (), "gpu0012"),
    "gpu-fault ": ("Xid 48 (double bit) on gpu0007 at 02:11", (), "gpu0007"),
    "host-oom": ("pods:\n worker-3: OOMKilled, exit 137", (), "worker-3"),
    "ib-error": (
        "gpu0001: NET/IB got completion ... status=12 vendor err 129, peer gpu0003\n"
        "gpu0002: NET/IB got completion ... status=12 vendor err 129, peer gpu0003",
        (),
        "gpu0003",
    ),
    "shm-exhausted": ("the DataLoader worker was killed by a Bus error", (), None),
    "node-lost": ("slurm says gpu0044 not responding -> DOWN*", (), "gpu0044"),
    "port-in-use": ("rank 0 on gpu0001 dies, EADDRINUSE port 29500", (), "gpu0001"),
    "crashed-rank": (
        "rank 11: FileNotFoundError /data/7.tar, exit code 1",
        (11,),
        None,
    ),
    "collective-mismatch": (
        "rank 0 -> BROADCAST\nrank 1 -> ALLREDUCE\nrank 2 -> ALLREDUCE",
        (0,),
        None,
    ),
}
LOOK_ALIKES = (
    "no Xid on any node",
    "nobody was OOMKilled on gpu0003",
    "NET/IB: no error since, status=0 everywhere",
    "the file server storage1 is not responding",
    "rank 0 never came to ALLREDUCE",
    "the ports are all free, no EADDRINUSE",
    "gpu0007 never had Xid 48",
    "We replaced gpu0007, it had Xid 48 in May. This week 3 runs completed.",
    'Since NCCL_IB_TIMEOUT=22: no more "NET/IB : Got completion from peer with '
    'status=12" on any node',
)
SENTENCE = "RuntimeError: Detected mismatch between collectives on ranks"
BEGUN = {
    "shape-mismatch": (
        ".\nRank 2: _REDUCE_SCATTER_BASE, TensorShape=[4096]\n"
        "Rank 1: _REDUCE_SCATTER_BASE, TensorShape=[512]\n",
        ". Rank 5: TensorShape=[4096], Rank 0: TensorShape=[2048]`.\n",
        ". Rank 0 is running all_gather(TensorShape=[9]) [the steps] but Rank 1\n"
        "is running all_gather(TensorShape=[70000]) [the loader].\n",
    ),
    "collective-mismatch": (
        ". Rank 3 running ALLGATHER, Rank 0 running ALLREDUCE`\n",
        ": rank 2 -> BARRIER, rank 0 -> ALLREDUCE\n",
    ),
}


@pytest.mark.parametrize(("slug", "text"), BROKEN.items(), ids=BROKEN)
def test_a_line_that_was_broken_by_hand_is_read(analyzed, slug, text):
    analysis = analyzed({"note.txt": text})
    assert verdict(analysis)[0] == slug
    assert analysis.ranked.verdict.evidence[0].line == 1


TITLES = {
    "[BUG] exits with return code = -11": ("crashed-rank", ()),
    "[ERROR] failed (exitcode: -11) local_rank: 0 (pid: 41010) of binary: /bin/py": (
        "crashed-rank",
        (0,),
    ),
    "Timed out after 301 seconds waiting for clients": ("rendezvous-failed", ()),
}


@pytest.mark.parametrize(("title", "told"), TITLES.items())
def test_a_title_may_be_a_line_of_a_launcher_or_its_end(analyzed, title, told):
    assert verdict(analyzed({"issue.md": f"# {title}\n\nTwo nodes.\n"}))[:2] == told


def test_a_title_that_a_launcher_did_not_print_accuses_nobody(analyzed):
    for title in ("it exits with a return code", "no rank failed (exitcode: 0)"):
        text = f"# {title}\n\nTwo nodes.\n"
        assert analyzed({"issue.md": text}).report.outcome != "failure"


@pytest.mark.parametrize(("slug", "text"), RETOLD.items(), ids=RETOLD)
def test_what_was_retold_is_possible_at_most_and_says_so(analyzed, slug, text):
    told = analyzed({"note.txt": text}).ranked.verdict
    assert (told.slug, told.confidence) == (slug, "possible")
    assert "condensed by hand" in told.explanation


@pytest.mark.parametrize(("slug", "told"), ITEMS.items(), ids=ITEMS)
def test_who_and_what_are_enough_of_an_incident_s_notes(analyzed, slug, told):
    text, ranks, host = told
    found = analyzed({"note.txt": f"{text}\n"}).ranked.verdict
    assert (found.slug, found.confidence) == (slug.strip(), "possible")
    assert (found.ranks, found.hosts) == (ranks, (host,) if host else ())
    assert "condensed by hand" in found.explanation


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_a_note_says_not_to_be_accuses_nobody(analyzed, text):
    assert analyzed({"note.txt": f"{text}\n"}).report.outcome != "failure"


def test_a_list_s_item_of_a_rank_is_no_record_of_it(analyzed):
    text = "what we saw\n- rank 5: CUDA out of memory. Tried to allocate 20 GiB\n"
    found = analyzed({"note.txt": text}).ranked.verdict
    assert (found.slug, found.confidence) == ("gpu-oom", "possible")


def test_ranks_that_are_told_together_each_have_the_call(analyzed):
    text = "Ranks 0-2,5: watchdog timeout, SeqNum=118, OpType=ALLREDUCE, 600 s\n"
    rows = analyzed({"note.txt": text}).frames["positions"]
    assert rows["rank"].sort().to_list() == [0, 1, 2, 5]
    assert set(rows["timed_out"]) == {118}


@pytest.mark.parametrize(
    ("slug", "rest"), [(slug, rest) for slug, told in BEGUN.items() for rest in told]
)
def test_the_sentence_of_the_check_is_likely_whatever_was_kept_of_it(
    analyzed, slug, rest
):
    told = analyzed({"note.txt": f"- seen: `{SENTENCE}{rest}"}).ranked.verdict
    assert (told.slug, told.confidence, told.ranks) == (slug, "likely", ())
    assert "retold" in told.explanation


def test_an_exception_that_is_not_of_the_rank_before_it_accuses_nobody(analyzed):
    text = "rank 3 is fine, and then: ValueError: no data\n"
    assert analyzed({"note.txt": text}).report.outcome != "failure"


def test_a_monitored_barrier_that_was_retold_names_who_did_not_reach_it(analyzed):
    text = "- `Rank 0`: `Ranks 3, 6 failed to pass monitoredBarrier`\n"
    assert verdict(analyzed({"note.md": text})) == ("missing-rank", (3, 6), ())


INIT = "gpu0001:31:31 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (INIT + "...\n", "inconclusive"),
        (INIT + "[…]\n", "inconclusive"),
        ("...\n" + INIT, "no-failure"),
        (INIT, "no-failure"),
        (INIT + "step 3 loss 0.5\n...\n", "no-failure"),
    ],
)
def test_a_log_whose_end_was_cut_out_proves_nothing(analyzed, text, outcome):
    assert analyzed({"note.log": text}).report.outcome == outcome


@pytest.mark.parametrize(
    "line",
    [
        "Rank 7: SequenceNumber=18, Rank 0: SequenceNumber=30",
        "[Rank 9]  last enqueued: 10, last completed: 10",
        "1/16 clients joined.",
    ],
)
def test_numbers_alone_accuse_nobody_and_forbid_no_failure(analyzed, line):
    report = analyzed({"note.txt": f"we saw this:\n{line}\n"}).report
    assert report.outcome == "inconclusive"


def test_a_file_in_which_it_finds_something_counts_as_recognised(analyzed):
    sources = analyzed({"note.txt": RETOLD["shape-mismatch"]}).report.sources
    (note,) = (source for source in sources if source.source == "note.txt")
    assert note.kind == "log"
    assert note.rows


def test_where_a_strict_message_tells_a_cause_nothing_is_read_twice(analyzed):
    oom = (
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    analysis = analyzed({"note.txt": oom + RETOLD["shape-mismatch"]})
    assert verdict(analysis)[0] == "gpu-oom"
    assert "condensed.fingerprint" not in analysis.frames.messages


def test_a_large_log_is_not_read_again(analyzed):
    text = "a line of a program at work\n" * 4000 + RETOLD["shape-mismatch"]
    assert "condensed.fingerprint" not in analyzed({"job.log": text}).frames.messages


PREFIXED = "a3ku-algo-1-1kcnw | [1,2]:RuntimeError: DataLoader worker (pid 1219) is "
PREFIXED += "killed by signal: Bus error. It is possible that dataloader's workers are "
PREFIXED += "out of shared memory.\n"


def test_a_message_behind_a_prefix_that_nothing_knows_is_read(analyzed):
    assert verdict(analyzed({"cloud.txt": PREFIXED}))[0] == "shm-exhausted"


def test_inside_a_word_no_message_begins(analyzed):
    glued = PREFIXED.replace("]:RuntimeError: DataLoader", "]xDataLoader")
    assert verdict(analyzed({"cloud.txt": glued})) == "inconclusive"


@pytest.mark.parametrize(
    "line",
    [
        "gpu0001:73:387 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        "Epoch 3:  42%|####2     | 420/1000 [02:11<03:02,  3.18it/s, v_num=7]",
        "INFO:root:Reducer buckets have been rebuilt in this iteration.",
        "Epoch: [3][ 120/5005]  Time  0.212 ( 0.230)   Loss 2.2511e+00",
        "[default0]:No stragglers detected.",
    ],
)
def test_a_job_at_work_is_a_log_in_which_nothing_failed(analyzed, line):
    found = analyzed({"run.log": f"{line}\n" * 3})
    assert verdict(found) == "no-failure"
    assert found.frames["notes"].is_empty()


def test_prose_is_no_log(analyzed):
    assert verdict(analyzed({"run.log": "we restarted it by hand\n"})) == "inconclusive"


def test_a_failure_beside_progress_is_no_clean_bill(analyzed):
    bad = "INFO:root:buckets\nthe widget failed\n"
    assert verdict(analyzed({"run.log": bad})) == "inconclusive"


def test_what_the_first_look_knows_is_not_found_again_beside_it(analyzed):
    """The agent's line follows on a broken one; read together, both are found."""
    agent = (
        "E0820 10:00:21.314000 77 torch/distributed/elastic/multiprocessing/api.py:900] "
        "failed (exitcode: 1) local_rank: 0 (pid: 100) of binary: /usr/bin/python\n"
    )
    broken = timeout(3).strip().replace("operation timeout", "operation\ntimeout")
    frames = analyzed({"chat.txt": f"{broken} {agent}"}).frames
    assert frames.message("torchelastic.failed")["line"].to_list() == [2]


@pytest.mark.parametrize(
    "title",
    ["# `{}`", "**{}**", "fails with `{}`", 'it said: "{}"', "\u8bad\u7ec3\uff1a{}"],
)
def test_a_title_may_mark_a_line_as_code_or_end_in_one(analyzed, title):
    line = "srun: error: gpu0004: task 0: Out Of Memory"
    assert verdict(analyzed({"issue.md": title.format(line)}))[0] == "host-oom"
