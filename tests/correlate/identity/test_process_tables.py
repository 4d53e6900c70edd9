"""Ray's workers: which process is which rank, and whose traceback its driver quotes."""

TABLE = "(TrainController pid=90) - (ip={host}, pid={pid}) world_rank={rank}, local_rank={rank}, node_rank=0\n"
LATE = "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 25000ms for recv operation to complete"


def raised(last, head=""):
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 12, in loop',
        "    loss.backward()",
        last,
    )
    return "".join(f"{head}{line}\n" for line in lines)


def table(*pids, host="10.20.0.12"):
    return "".join(
        TABLE.format(host=host, pid=pid, rank=rank) for rank, pid in enumerate(pids)
    )


def ranks(frames, message):
    return frames.message(message)["rank"].to_list()


def test_a_process_on_the_drivers_node_is_the_one_of_the_table(analyzed):
    head = "(RayTrainWorker pid=403) "
    text = table(401, 402, 403) + raised("ValueError: short record", head)
    found = analyzed({"driver.log": text})
    assert ranks(found.frames, "python.traceback") == [2]
    assert found.ranked.verdict.ranks == (2,)


def test_a_number_that_two_hosts_have_is_of_no_one(analyzed):
    head = "(RayTrainWorker pid=401) "
    both = table(401) + table(400, 401, host="10.20.0.13")
    found = analyzed({"driver.log": both + raised("ValueError: short record", head)})
    assert ranks(found.frames, "python.traceback") == [None]


def test_a_quoted_traceback_is_of_each_rank_in_its_heading(analyzed):
    text = table(401, 402, 403, 404) + "[Rank 0 Error Snippet]:\n" + raised(LATE)
    text += "\n[Rank 1,2 Error Snippet]:\n" + raised(LATE)
    found = analyzed({"driver.log": text})
    assert sorted(ranks(found.frames, "c10d.gloo.timeout")) == [0, 1, 2]
    verdict = found.ranked.verdict
    assert (verdict.slug, verdict.ranks) == ("missing-rank", (3,))


def test_a_traceback_that_is_not_below_the_heading_is_not_theirs(analyzed):
    text = "[Rank 1,2 Error Snippet]:\n\n" + raised("ValueError: short record")
    assert ranks(analyzed({"driver.log": text}).frames, "python.traceback") == [None]
