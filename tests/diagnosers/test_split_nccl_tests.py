"""nccl-tests built without MPI: each process that mpirun starts is a world of its own."""

from log_lines import verdict

HEAD = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 1048576(bytes) warmup iters: 5\n"
)
LISTED = "#   Rank  {rank} Pid   {pid} on    gpu{host} device  0 [0x00] Tesla V100-SXM2-16GB\n"
ROW = (
    "           8             2     float     sum      -1    12.34    0.00    0.00      0"
    "    12.30    0.00    0.00      0\n"
)


def listed(*ranks, first=41, host=1):
    told = enumerate(ranks)
    return "".join(LISTED.format(rank=r, pid=first + n, host=host) for n, r in told)


def test_processes_that_are_all_rank_0_did_not_meet(analyzed):
    log = HEAD + HEAD + listed(0) + listed(0, first=91, host=2)
    assert verdict(analyzed({"job.log": log}))[:2] == ("split-rendezvous", ())


def test_a_second_run_lists_its_ranks_again(analyzed):
    log = HEAD + listed(0, 1) + ROW + HEAD + listed(0, 1, first=91) + ROW
    assert verdict(analyzed({"job.log": log})) == "no-failure"


def test_ranks_that_met_are_listed_once(analyzed):
    log = HEAD + listed(0, 1) + ROW
    assert verdict(analyzed({"job.log": log})) == "no-failure"
