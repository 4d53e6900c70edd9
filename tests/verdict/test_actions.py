"""What to do is concrete: it applies, it can be pasted, and it runs nothing foreign."""

import json
import shlex

import pytest

from known_jobs import known
from log_lines import found, traceback
from ncclforensics.model import shell
from ncclforensics.report.formats.text import render_text
from ncclforensics.report.given import Given
from ncclforensics.report.redact import KINDS, Redactor
from ncclforensics.verdict import actions


def test_the_culprits_own_log_comes_first_at_its_last_line():
    verdict = known("torch-missing-rank-two-hosts").report.verdict
    (action,) = verdict.remedy  # dumps are there, and the launcher ended the job
    assert action.startswith("less +5 logs/gpu0002/")


def test_a_stack_is_asked_for_only_while_the_process_may_live():
    hanging = known("nccl-init-missing-rank")
    ended = known("slurm-cancelled-after-hang")
    assert any("py-spy dump" in a for a in hanging.report.verdict.remedy)
    assert not any("py-spy" in a for a in ended.report.verdict.remedy)
    assert actions.may_live(hanging.frames, (2,))
    assert not actions.may_live(ended.frames, (2,))
    assert not actions.may_live(hanging.frames, ())


def test_dumps_are_asked_for_only_where_there_are_none():
    def asks(name):
        remedy = known(name).report.verdict.remedy
        return any("TORCH_FR_BUFFER_SIZE" in action for action in remedy)

    assert asks("torch-missing-rank-logs-only")
    assert not asks("torch-missing-rank-two-hosts")


def test_a_stack_is_taken_at_the_host_and_of_the_process(analyzed):
    verdict = hung(analyzed, "gpu0003", "gpu0003/rank_3.log").report.verdict
    assert verdict.culprits.ranks == (3,)
    assert verdict.remedy[0] == "less +2 gpu0003/rank_3.log"
    assert verdict.remedy[1] == "ssh gpu0003 py-spy dump --pid 703"


UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


@pytest.mark.parametrize(
    ("folder", "events", "stack"),
    [
        (f"pods/ml_w-3_{UID}/pytorch/0.log", "", "-n ml w-3 -c pytorch"),
        (
            "w-3/rank_3.log",
            "2m  Normal  Started  pod/w-3  Started container x",
            "w-3 -c x",
        ),
        (
            "w-3/rank_3.log",
            "5m  Normal  Scheduled  pod/w-3  Successfully assigned ml/w-3 to gpu0007",
            "-n ml w-3",
        ),
        (
            "w-3/rank_3.log",
            "5m  Normal  Scheduled  pod/w-3  Successfully assigned -f/w-3 to gpu0007",
            "w-3",  # a namespace that would be an option is none
        ),
    ],
)
def test_in_a_pod_a_stack_is_taken_by_kubectl(analyzed, folder, events, stack):
    verdict = hung(analyzed, "w-3", folder, events).report.verdict
    assert verdict.remedy[1] == f"kubectl exec {stack} -- py-spy dump --pid 703"


def shipped(line):
    # as Fluent Bit's kubernetes filter writes it
    where = {"pod_name": "w-3", "namespace_name": "ml", "container_name": "pytorch"}
    return json.dumps({"log": f"{line}\n", "kubernetes": where})


PREFIXED = {
    "kubectl": (lambda line: f"[pod/w-3/pytorch] {line}", "w-3 -c pytorch"),
    "kubectl, without a container": (lambda line: f"[pod/w-3] {line}", "w-3"),
    # which is known from its habit: on three lines or more
    "stern": (lambda line: f"w-3 pytorch {line}\nw-3 pytorch {line}", "w-3 -c pytorch"),
    "fluent bit": (shipped, "-n ml w-3 -c pytorch"),
    "logcli": (
        lambda line: f'2026-08-20T10:00:00Z {{namespace="ml", pod="w-3"}} {line}',
        "-n ml w-3",
    ),
    "an Indexed Job": (
        lambda line: f"[pod/w-3-x7k2p/main] {line}",
        "w-3-x7k2p -c main",
    ),
    "an option": (lambda line: f"[pod/w-3/--as=root] {line}", "w-3"),
}


@pytest.mark.parametrize("form", PREFIXED)
def test_a_pod_is_known_from_the_prefix_of_its_lines(analyzed, form):
    prefixed, where = PREFIXED[form]
    verdict = hung(analyzed, "w-3", "all.log", as_=prefixed).report.verdict
    assert f"kubectl exec {where} -- py-spy dump --pid 703" in verdict.remedy


OTHERS = ["", "w-3  | ", "w-3: ", "[1,3,w-3]<stderr>:", "[pod/w-launcher/mpi] "]


@pytest.mark.parametrize("prefix", [*OTHERS, "[pod/w-3-agent/main] "])
def test_other_prefixes_make_a_host_no_pod(analyzed, prefix):
    told = hung(analyzed, "w-3", "all.log", as_=lambda line: prefix + line)
    assert "ssh w-3 py-spy dump --pid 703" in told.report.verdict.remedy


def test_another_pod_makes_a_host_no_pod(analyzed):
    events = "2m  Normal  Started  pod/w-33  Started container x"
    verdict = hung(analyzed, "w-3", "w-3/rank_3.log", events).report.verdict
    assert verdict.remedy[1] == "ssh w-3 py-spy dump --pid 703"


def hung(analyzed, host, path, events="", as_=str):
    """Analyze four ranks, of which rank 3 on `host` never called NCCL.

    `as_` returns a line of rank 3 as a shipper writes it.
    """
    lines = "".join(
        f"gpu000{r}:70{r}:70{r} [0] NCCL INFO ncclCommInitRank comm 0xa{r} rank {r} "
        "nranks 4 cudaDev 0 busId 7000 commId 0x99 - Init START\n"
        for r in range(3)
    )
    alone = (
        f"{host}:703:703 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.4<0>\n"
        f"{host}:703:703 [0] rank 3 of 4 is ready\n"
    )
    files = {
        f"gpu000{r}/rank_{r}.log": line for r, line in enumerate(lines.splitlines(True))
    }
    more = {"events.txt": f"{events}\n"} if events else {}
    shipped = "".join(f"{as_(line)}\n" for line in alone.splitlines())
    return analyzed(files | {path: shipped} | more)


def test_ibstat_is_for_infiniband_alone(analyzed):
    def remedy(link):
        lines = (
            f"gpu1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/{link} [RO]; "
            "OOB eth0:10.0.0.1<0>\n"
            "gpu1:1:1 [0] NCCL INFO Using network Socket\n"
        )
        ((_, finding),) = found(analyzed({"a.log": lines}), "slow-network")
        return finding.remedy

    assert any("ibstat" in action for action in remedy("IB"))
    assert not any("ibstat" in action for action in remedy("RoCE"))
    assert any("mlxlink" in action for action in remedy("RoCE"))


@pytest.mark.parametrize(
    ("stop", "asks"),
    [
        (
            "slurmstepd: error: *** JOB 50917 ON gpu0001 CANCELLED AT 2026-11-20T12:00:00 "
            "***\n",
            True,
        ),
        (
            "W1120 11:24:16.622000 23171 torch/distributed/elastic/agent/server/api.py:753] "
            "Received Signals.SIGINT death signal, shutting down workers\n",
            False,
        ),
    ],
    ids=["slurm", "a key"],
)
def test_slurms_commands_are_for_its_jobs_alone(analyzed, stop, asks):
    ((_, finding),) = found(analyzed({"job.log": stop}), "cancelled")
    assert any("sacct" in step for step in finding.remedy) == asks
    assert finding.remedy


def test_nobody_is_left_without_an_action_and_none_gets_more_than_three():
    for name in ("torch-first-timeout-only", "nccl-init-missing-rank"):
        for finding in known(name).report.findings:
            assert 1 <= len(finding.remedy) <= actions.MOST


@pytest.mark.parametrize("name", ["a b.log", "-v.log", "+q.log", "$(reboot).log", "'"])
def test_a_file_name_is_one_word_and_no_option(name):
    *_, word = shlex.split(shell.read(name, 4))
    assert word.removeprefix("./") == name
    assert word[0] not in "-+"
    assert shell.renamed(shell.read(name, 4), lambda n: f"x{n}") == shell.read(
        f"x{name}", 4
    )


def test_a_member_of_an_archive_is_no_path():
    assert shell.read("logs.tgz!rank_3.log", 4).startswith("read line 4 of ")
    assert shell.read("rank_3.log.gz", 4) == "zless +4 rank_3.log.gz"


def test_what_only_looks_like_a_host_is_not_given_to_ssh(analyzed):
    assert shell.is_host("gpu0001.example")
    assert not shell.is_host("-oProxyCommand=reboot")
    assert not shell.is_host("gpu1;reboot")
    assert not shell.is_host(None)


def test_a_file_name_with_a_command_in_it_is_quoted(analyzed):
    died = traceback(0, "ValueError: x")
    run = analyzed({"logs $(reboot)/rank_0.log": died})
    (action,) = run.report.verdict.remedy
    assert shlex.split(action)[-1] == "logs $(reboot)/rank_0.log"


def test_redaction_reaches_the_actions():
    report = known("torch-missing-rank-two-hosts").report
    redactor = Redactor(KINDS)
    redactor.learn(report)
    hidden = redactor.struct(report)
    text = " ".join(a for f in hidden.findings for a in f.remedy)
    assert "gpu0002" not in text
    assert "vl3_7t14" not in text
    assert hidden.last_line.source in hidden.verdict.remedy[0]


def test_the_commands_have_the_paths_that_were_given():
    report = known("torch-missing-rank-two-hosts").report
    name = report.last_line.source
    given = Given(("my logs", "b"), "my logs/{}".format)
    text = render_text(report, given=given)
    assert "timeline 'my logs' b" in text
    assert f"less +5 'my logs/{name}'" in text
    assert "PATH" in render_text(report)
    assert "timeline" not in render_text(report, given=Given(("-",)))
    assert "x" * 99 not in render_text(report, given=Given(("x" * 99,) * 9))
