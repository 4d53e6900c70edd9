"""Slurm's tables list many jobs; what they say of others says nothing of this one."""

import json

from log_lines import found, init, verdict

JOB = init(0, 2) + init(1, 2, host="gpu0002")
BY_USER = (
    "slurmstepd: error: *** JOB 50917 ON gpu0001 CANCELLED AT 2026-08-20T10:00:00 ***\n"
)
TABLE = (
    "50916          older      main   research   4    TIMEOUT      0:0 \n"
    "50917          pretrain   main   research   4 CANCELLED+      0:0 \n"
)
SHOWN = (
    "JobId=50916 JobName=older\n   JobState=TIMEOUT Reason=TimeLimit\n\n"
    "JobId=50917 JobName=pretrain\n   JobState=CANCELLED Reason=None\n"
)


def listed(*states):
    jobs = [
        {
            "job_id": 50916 + number,
            "state": {"current": state, "reason": "None"},
            "time": {"end": 1787220000 + number},
            "nodes": "gpu[0001-0002]",
        }
        for number, state in enumerate(states)
    ]
    return json.dumps({"jobs": jobs})


def test_the_job_is_the_one_that_its_own_output_names(analyzed):
    for name, table in (("sacct.txt", TABLE), ("show.txt", SHOWN)):
        analysis = analyzed({"job.log": JOB + BY_USER, name: table})
        assert verdict(analysis) == ("cancelled", (), ())


def test_the_name_of_its_output_names_it_too(analyzed):
    files = {"pretrain-50917.out": JOB, "sacct.txt": TABLE}
    assert verdict(analyzed(files)) == ("cancelled", (), ())


def test_json_of_several_jobs_is_read_for_the_one(analyzed):
    table = listed("TIMEOUT", ["CANCELLED"])
    analysis = analyzed({"pretrain-50917.out": JOB, "sacct.json": table})
    assert verdict(analysis) == ("cancelled", (), ())


def test_of_several_jobs_none_is_guessed(analyzed):
    analysis = analyzed({"job.log": JOB, "sacct.txt": TABLE})
    assert not found(analysis, "cancelled")
    assert not found(analysis, "time-limit")
    assert analysis.frames["notes"]["text"].str.contains("list 2 jobs").any()


def test_the_only_job_that_is_listed_may_be_another(analyzed):
    table = "50916          older      main   research   4    TIMEOUT      0:0 \n"
    analysis = analyzed({"job.log": JOB + BY_USER, "sacct.txt": table})
    assert verdict(analysis) == ("cancelled", (), ())
