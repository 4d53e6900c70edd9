"""Small evidence of one kind each, for campaigns to begin with."""

DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 3}},
    "entries": [
        {
            "record_id": 0,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": 1,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1_758_610_505_592_849_034,
            "duration_ms": 1.5,
            "input_sizes": [[4]],
            "state": "scheduled",
            "frames": [{"name": "f", "filename": "a.py", "line": 1}],
            "retired": False,
        }
    ],
}
OTHER = {
    "job": "7",
    "attempt": 1,
    "outcome": "failure",
    "class": "missing-rank",
    "headline": "rank 3 was killed",
    "culprits": {"ranks": [3], "ranks_folded": "3", "hosts": ["node1"], "devices": []},
    "evidence": [{"source": "rank_3.log", "line": 7, "text": "it is `<here>` [now]"}],
}
LOG = b"""gpu1:1:2 [0] NCCL INFO Using network IB
[rank3]: Traceback (most recent call last):
[rank3]:   File "/job/train.py", line 3, in step
[rank3]: ValueError: bad batch
"""
ERROR = (
    b'{"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": '
    b'"Traceback (most recent call last):\\n  File \\"/a.py\\", line 3, in f\\n    g()'
    b'\\nRuntimeError: boom\\n", "timestamp": "1795167676"}}}'
)
RAS = (
    b'{"nccl_version": "2.29.1", "timestamp": "2026-12-19 13:06:53", "communicators": '
    b'[{"hash": "0xae94", "size": 3, "ranks": [{"rank": 0, "host": "10.0.0.1", "pid": '
    b'700, "cuda_dev": 0, "collective_counts": {"AllReduce": 4}}, {"rank": 1, "host": '
    b'"10.0.0.2", "pid": 701, "cuda_dev": 1, "collective_counts": {"AllReduce": 3}}], '
    b'"missing_ranks": [{"rank": 2, "host": "10.0.0.3", "pid": 702, "cuda_dev": 0, '
    b'"status": {"considered_dead": true}}]}]}'
)
