"""Records of made-up incidents, for tests of the store and its answers."""

from ncclforensics.history.record import Record

DAY = 86_400 * 10**9
START = 1_767_225_600 * 10**9  # 2026-01-01


def incident(number, **told):
    """A GPU fault of gpu0001 on day `number`, in a job of four hosts."""
    t = START + number * DAY
    known = {
        "id": f"{number + 1:016x}",
        "evidence": f"{number + 1:016x}",
        "same": "00000000000000aa",
        "kept": t,
        "t": t,
        "outcome": "failure",
        "slug": "gpu-fault",
        "domain": "hardware",
        "headline": "a GPU broke: Xid 79",
        "hosts": ("gpu0001",),
        "nodes": tuple(f"gpu{n:04}" for n in range(1, 5)),
        "world_size": 32,
        "began": t - 3_600 * 10**9,
        "ended": t,
    }
    return Record(**{**known, **told})
