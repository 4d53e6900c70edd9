"""Two jobs in one directory are told apart; numbers of other things split nothing."""

import shutil

from ncclforensics.analysis import analyze


def stream(*lines):
    return "".join(f"{line}\n" for line in lines)


def crash(rank, says):
    return [
        f"{rank}: [rank{rank}]: Traceback (most recent call last):",
        f'{rank}: [rank{rank}]:   File "/job/train.py", line 9, in <module>',
        f"{rank}: [rank{rank}]:     main()",
        f"{rank}: [rank{rank}]: {says}",
    ]


STEPS = [f"{rank}: 2026-11-20 09:00:00,000 step 1 loss 2.0" for rank in range(4)]


def test_the_last_job_that_failed_is_explained(analyzed):
    found = analyzed(
        {
            "slurm-50916.out": stream(*STEPS, *crash(1, "ValueError: first job")),
            "slurm-50917.out": stream(*STEPS, *crash(3, "ValueError: second job")),
        }
    )
    assert found.report.verdict.culprits.ranks == (3,)
    (note,) = [n.text for n in found.report.notes if "left out" in n.text]
    assert "job 50916" in note


def test_a_job_that_ended_well_is_not_taken_for_the_failed_one(analyzed):
    found = analyzed(
        {
            "slurm-50916.out": stream(*STEPS, *crash(1, "ValueError: first job")),
            "slurm-50917.out": stream(*STEPS),
        }
    )
    assert found.report.verdict.culprits.ranks == (1,)


def test_dumps_without_a_number_are_of_the_job_that_ran_then(jobs, tmp_path):
    shutil.copytree(jobs / "torch-chain" / "evidence" / "fr", tmp_path / "fr")
    for job, hour, more in ((50916, 9, crash(3, "ValueError: nan")), (50917, 11, [])):
        lines = [
            f"{rank}: 2026-11-20 {hour:02}:{minute}:00,000 step 1 loss 2.0"
            for minute in (30, 40)
            for rank in range(4)
        ]
        (tmp_path / f"slurm-{job}.out").write_text(stream(*lines, *more))
    report = analyze([str(tmp_path)]).report
    assert (report.verdict.slug, report.verdict.culprits.ranks) == (
        "crashed-rank",
        (3,),
    )
    (other,) = report.others
    assert (other.job, other.slug, other.culprits.ranks) == (
        "50917",
        "missing-rank",
        (1,),
    )


def test_a_job_whose_dumps_show_a_hang_is_explained_before_one_that_ran_well(
    jobs, tmp_path
):
    """Nothing in any line failed: only the calls tell which of both it was."""
    for name, slug in (("a", "torch-missing-rank"), ("b", "torch-healthy-pipeline")):
        shutil.copytree(jobs / slug / "evidence" / "fr", tmp_path / name / "fr")
    report = analyze([str(tmp_path)]).report
    assert (report.verdict.slug, report.verdict.culprits.ranks) == (
        "missing-rank",
        (2,),
    )
    (other,) = report.others
    assert (other.job, other.outcome) == ("b", "no-failure")


def test_one_file_for_each_process_is_one_job(analyzed):
    files = {f"train-{4100 + rank}.out": stream(STEPS[rank]) for rank in range(4)}
    files["train-4101.out"] += stream(*crash(1, "ValueError: mine"))
    found = analyzed(files)
    assert found.report.verdict.culprits.ranks == (1,)
    assert not [n for n in found.report.notes if "left out" in n.text]


def test_days_are_no_jobs(analyzed):
    found = analyzed(
        {
            "train-20261119.log": stream(*STEPS, *crash(1, "ValueError: mine")),
            "train-20261120.log": stream(*STEPS),
        }
    )
    assert not [n for n in found.report.notes if "left out" in n.text]


def test_two_whole_jobs_of_the_lab_give_each_its_own_verdict(jobs, tmp_path):
    from ncclforensics.analysis import analyze

    for number, slug in (("50916", "torch-missing-rank"), ("50917", "torch-chain")):
        shutil.copytree(jobs / slug / "evidence", tmp_path / f"job_{number}")
    found = analyze([str(tmp_path)])
    assert found.report.verdict.culprits.ranks == (1,)
    assert found.report.verdict.collective.process_group_desc == "TP"


def init(rank, pid, comm, host="a01"):
    return (
        f"{host}:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} "
        f"nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId {comm} - "
        "Init COMPLETE\n"
    )


def raised(rank, says):
    lines = ["Traceback (most recent call last):", '  File "/job/t.py", line 9, in f']
    return "".join(f"[rank{rank}]: {line}\n" for line in [*lines, "    g()", says])


def nccl_job(folder, pid, comm, culprit, host="a01"):
    files = {f"{folder}/{r}.log": init(r, pid + r, comm, host) for r in (0, 1)}
    return files | {
        f"{folder}/{culprit}.log": init(culprit, pid + culprit, comm, host)
        + raised(culprit, f"ValueError: {folder}")
    }


def test_folders_of_communicators_that_share_no_process_are_jobs(analyzed):
    found = analyzed(nccl_job("eval", 40, "0xa1", 0) | nccl_job("train", 70, "0xb2", 1))
    (other,) = found.report.others
    assert (other.job, other.slug, other.culprits.ranks) == (
        "eval",
        "crashed-rank",
        (0,),
    )
    assert found.report.verdict.culprits.ranks == (1,)


def test_groups_of_other_gpus_in_other_folders_are_one_job(analyzed):
    one = nccl_job("a01", 40, "0xa1", 0)
    other = nccl_job("a02", 70, "0xb2", 1, host="a02")
    assert not analyzed(one | other).report.others


def launch(folder, rank, says, run="none_ab12"):
    files = {f"{folder}/{run}/attempt_0/{r}/stderr.log": "" for r in (0, 1)}
    for r in (0, 1):
        text = raised(r, says if r == rank else "KeyboardInterrupt: ")
        files[f"{folder}/{run}/attempt_0/{r}/stderr.log"] = text
    return files


def test_a_rank_that_torchrun_started_twice_is_of_two_jobs(analyzed):
    first = launch("eval", 0, "ValueError: eval")
    second = launch("train", 1, "ValueError: train", run="none_cd34")
    found = analyzed(first | second)
    told = {found.report.verdict.culprits.ranks, found.report.others[0].culprits.ranks}
    assert told == {(0,), (1,)}


def test_every_attempt_that_was_left_out_is_explained_in_short(jobs):
    from ncclforensics.analysis import analyze
    from ncclforensics.report.formats.text import render_text

    found = analyze([str(jobs / "torch-elastic-restart" / "evidence")])
    (other,) = found.report.others
    assert (other.attempt, other.slug, other.culprits.ranks) == (
        0,
        "crashed-rank",
        (1,),
    )
    assert "others   attempt 0: crashed-rank: rank 1" in render_text(found.report)


def beside(jobs, tmp_path, first, second):
    for folder, job in (("a", first), ("b", second)):
        shutil.copytree(jobs / job / "evidence" / "fr", tmp_path / folder / "fr")
    return analyze([str(tmp_path)]).report


def test_dumps_of_two_jobs_in_two_folders_are_told_apart(jobs, tmp_path):
    found = beside(jobs, tmp_path, "torch-crashed-rank", "torch-missing-rank-dump-lost")
    assert [n.text for n in found.notes if "this is about job" in n.text]
    assert found.verdict is None or found.verdict.slug != "straggler"


def test_one_jobs_dumps_collected_twice_are_one_job(jobs, tmp_path):
    found = beside(jobs, tmp_path, "torch-crashed-rank", "torch-crashed-rank")
    assert not [n.text for n in found.notes if "this is about job" in n.text]


def test_folders_named_by_the_time_of_day_are_looks_at_one_job(jobs, tmp_path):
    for folder in ("0521", "0541"):
        dumps = jobs / "torch-missing-rank" / "evidence" / "fr"
        shutil.copytree(dumps, tmp_path / folder / "fr")
    found = analyze([str(tmp_path)]).report
    assert not found.others
    assert (found.verdict.slug, found.verdict.culprits.ranks) == ("missing-rank", (2,))
