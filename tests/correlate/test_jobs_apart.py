"""Two jobs in one directory are told apart; numbers of other things split nothing."""

import shutil


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
