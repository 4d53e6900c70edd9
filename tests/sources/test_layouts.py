"""What a path tells, and what it must not be taken to tell."""

from __future__ import annotations

import pytest

from ncclforensics.sources.layouts import read

RUN = "none_a1b2/attempt_1"
ID = "0123456789abcdef0123456789abcdef"

LOGS = {
    f"{RUN}/3/stderr.log": {"attempt": 1, "local_rank": 3, "stream": "stderr"},
    f"{RUN}/617/stdout.log.gz": {"attempt": 1, "local_rank": 617, "stream": "stdout"},
    f"{RUN}/filtered_stdout.log": {"attempt": 1, "stream": "stdout"},
    f"gpu0001/{RUN}/0/x": {"attempt": 1, "local_rank": 0, "host": "gpu0001"},
    "nccl.gpu0001.4121.log": {"host": "gpu0001", "pid": 4121},
    "nccl.gpu0002.rank3.log": {"host": "gpu0002", "rank": 3},
    "nccl_debug.a-b.example.org.77": {"host": "a-b.example.org", "pid": 77},
    "nccl.gpu0002.rank2.log": {"host": "gpu0002", "rank": 2},
    "nccl.gpu0002.example.org.rank2": {"host": "gpu0002.example.org", "rank": 2},
    "nccl-debug.gpu0001.4121.rank3.log": {"host": "gpu0001", "pid": 4121, "rank": 3},
    "rank2.gpu0002.log": {"host": "gpu0002", "rank": 2},
    "train_rank_3_gpu0001.out": {"host": "gpu0001", "rank": 3},
    "nccl_debug_gpu0001_77.log.zst": {"host": "gpu0001", "pid": 77},
    "nccl-gpu-node-a-4121.log": {"host": "gpu-node-a", "pid": 4121},
    "slurm-4242_7.out": {"rank": 7},
    "4242_7.out": {"rank": 7},
    "job.gpu0001.3.out": {"host": "gpu0001", "rank": 3},
    "job.r12n34.3.err": {"host": "r12n34", "rank": 3, "stream": "stderr"},
    "out.gpu0001.3": {"host": "gpu0001", "rank": 3},
    "train-4242.node07.12.out": {"host": "node07", "rank": 12},
    "rank_5.log": {"rank": 5},
    "rank5.log.1": {"rank": 5},
    "rank-5.txt": {"rank": 5},
    "rank_0005.stderr.log": {"rank": 5, "stream": "stderr"},
    "rank1-full.log": {"rank": 1},
    "rank_5_of_16.log": {"rank": 5},
    "stderr_rank_5.txt": {"rank": 5, "stream": "stderr"},
    "global_rank_5.log": {"rank": 5},
    "rank.3/stdout": {"rank": 3, "stream": "stdout"},
    "rank-12/deep/down.log": {"rank": 12},
    "nemo_log_globalrank-5_localrank-1.txt": {"rank": 5, "local_rank": 1},
    "local_rank_3.log": {"local_rank": 3},
    "out/local3.out": {"local_rank": 3},
    "perf/grank_004.tsv": {"rank": 4},
    "20250425_160522_ann@fx7-b_device3_rank11.log": {
        "host": "fx7-b",
        "local_rank": 3,
        "rank": 11,
    },
    "node05_lr0_31772.txt": {"host": "node05", "local_rank": 0, "pid": 31772},
    "worker-3.log": {"host": "worker-3"},
    "llama-worker-3": {"host": "llama-worker-3"},
    "pods/llama-worker-3/worker-30.log": {"host": "llama-worker-3"},
    "node01.log": {"host": "node01"},
    "gpu0001/nccl.log": {"host": "gpu0001"},
    "gpu0001.tgz!var/log/x.log": {"host": "gpu0001"},
    "dmesg-gpu0001.log": {"host": "gpu0001"},
    "gpu0001.dmesg": {"host": "gpu0001"},
    "gpu/kestrel-node45-smi.csv": {"host": "kestrel-node45"},
    "scrape_2/nid003446_9102.prom": {"host": "nid003446"},
    "trainer_172.31.17.49.txt": {"host": "172.31.17.49"},
    "pods/job-worker-0_h100-rack7-u7/t.log": {"host": "h100-rack7-u7"},
    "fx111-dmesg.txt": {"host": "fx111"},
    "console/fx111.console": {"host": "fx111"},
    "dmesg-gpu-node-a.log": {"host": "gpu-node-a"},
    "node-07/dmesg-T.txt": {"host": "node-07"},
    "journalctl-k.n2.txt": {"host": "n2"},
    "journalctl-k-b0_gpu0001.log": {"host": "gpu0001"},
    "pods/ml_job-worker-2_0a1b2c3d-4e5f/pytorch/1.log": {
        "host": "job-worker-2",
        "attempt": 1,
    },
    f"job-0_ml_pytorch-{ID * 2}.log": {"host": "job-0"},
    "user_logs/std_log_process_3.txt": {"rank": 3},
    "gpu-a17.rank2.pid7938.log": {"host": "gpu-a17", "rank": 2, "pid": 7938},
    "logs/651394_3_gpu05.log": {"host": "gpu05", "rank": 3},
    "dmesg-gpu-a17.txt": {"host": "gpu-a17"},
    "nvidia-smi-q-gpu-a17.txt": {"host": "gpu-a17"},
    "dmesg-T-k9.txt": {"host": "k9"},
    f"10.0.0.6/session_2026-08-20_10-00-00_1_2/logs/worker-{ID}-01000000-4711.out": {
        "host": "10.0.0.6",
        "pid": 4711,
    },
    f"worker-{ID}-01000000-4711.err": {"pid": 4711, "stream": "stderr"},
}

SAY_NOTHING = (
    *("log.txt", "log.2.txt", "3.log", "0/stderr.x", "train_2024-01-05.log", "v2.log"),
    *("nccl.4121.log", "nccl.log.2", "nccl.2024-01-01.12.log", "slurm-4242.out"),
    *("20240101_3_gpu05.log", "651394_11_run7.log"),
    *("2024_01.out", "20240101_3.out", "job.main.3.out", "job.exp12.3.out"),
    *("node_rank_1.log", "noderank1.log", "tp_rank_2.log", "dp-rank-2.log"),
    *("rank_0-7.log", "ranks_5.log", "crank_5.log", "frank5.log"),
    *("gpu3/x.log", "node1/x.log", "run12/x.log", "step-100/x.log", "gpu3.log"),
    *("local_ranks_of_all.log", "host_rank2.log", "rapid4711.log", "pids.log"),
    *(
        "dmesg.log",
        "dmesg-T.log",
        "nvidia-smi-q-gpu-n7.txt",
        "run2.console",
        "train.console",
        "dmesg-2024-01-01.log",
        "worker_3.log",
        "attempt_x/3/y",
        "2.30.7.1/x.log",
    ),
)

DUMPS = {
    "nccl_trace_rank_5": 5,
    "comm_lib_trace_rank_12": 12,
    "_dump_3": 3,
    "_dump_3.json": 3,
    "rank_7.json": 7,
    "fr7": 7,
    "nccl_trace_rank_gpu0001_12": 12,
    "nccl_trace_rank_10-0-0-1_12": 12,
    "nccl_trace_rank_5.pkl.gz": 5,
    "nccl_trace_rank_5_20240101": 5,
    "nccl_trace_rank_5.1700000000": 5,
    "nccl_trace_rank_5.bak": 5,
    "dump_3 (1)": 3,
    "dump_3of16.json": 3,
    "dump_rank_5_step_1000": 5,
    "rank_7/dump": 7,
    "attempt_0/fr/nccl_trace_rank_0": 0,
    "fr_trace.json": None,
    "dump_20240101": None,
    "dump_step_100": None,
    "trace_gpu0001": None,
    "tp_rank_2": None,
}


@pytest.mark.parametrize(("path", "who"), LOGS.items())
def test_a_known_layout_is_read(path, who):
    assert dict(read(path, "log")) == who


@pytest.mark.parametrize("path", SAY_NOTHING)
def test_what_may_mean_something_else_is_not_read(path):
    who = set(read(path, "log")) - {"stream"}
    assert not who


@pytest.mark.parametrize(("path", "rank"), DUMPS.items())
@pytest.mark.parametrize("kind", ["flight_recorder_pickle", "flight_recorder_json"])
def test_the_rank_of_a_dump_is_in_its_name(path, rank, kind):
    assert read(path, kind).get("rank") == rank


def test_only_of_a_dump_is_the_last_number_the_rank():
    assert "rank" not in read("_dump_3", "log")


def test_the_host_in_a_dump_name_is_kept():
    who = read("nccl_trace_rank_gpu0001_12", "flight_recorder_pickle")
    assert who["host"] == "gpu0001"
    who = read("fr_ip-10-0-21-50_27.json", "flight_recorder_json")
    assert (who["host"], who["rank"]) == ("ip-10-0-21-50", 27)
