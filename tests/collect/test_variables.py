"""Which variables are kept, and that a secret is in nothing."""

import pytest

from ncclforensics.collect import variables

KEPT = "NCCL_IB_HCA TORCH_NCCL_DUMP_ON_TIMEOUT MASTER_ADDR CUDA_VISIBLE_DEVICES RANK"
KEPT += " LOCAL_RANK WORLD_SIZE SLURM_JOB_ID GLOO_SOCKET_IFNAME UCX_TLS FI_PROVIDER"
KEPT += " OMPI_COMM_WORLD_RANK NCCL_ASYNC_ERROR_HANDLING"
LEFT = "HOME SHELL AWS_SECRET_ACCESS_KEY WANDB_API_KEY HF_TOKEN TORCH_API_TOKEN"
LEFT += " SLURM_JWT NCCL_SECRET RAY_REDIS_PASSWORD SLURM_MUNGE_COOKIE RAY_AUTH"


@pytest.mark.parametrize("name", KEPT.split())
def test_what_a_job_is_set_up_with_is_kept(name):
    assert variables.kept({name: "1"}) == {name: "1"}


@pytest.mark.parametrize("name", LEFT.split())
def test_what_is_not_the_jobs_or_sounds_like_a_secret_is_not(name):
    assert variables.kept({name: "value"}) == {}


def test_the_value_of_a_secret_is_replaced_wherever_it_stands():
    known = variables.secrets({"HF_TOKEN": "abcdefgh12", "KEY_FILE": "/etc/key-file"})
    assert known == {"abcdefgh12"}
    assert variables.cleaned(b"log in as abcdefgh12!", known) == b"log in as <secret>!"


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --wandb-api-key=0123456789abcdef",
        "python train.py --token 0123456789abcdef0123",
        '{"password": "0123456789abcdef"}',
        r'{"command": "echo {\"password\": \"0123456789abcdef\"}"}',
        "https://user:0123456789abcdef@host/path",
        "hf_0123456789abcdef0123456789abcdef",
        "AKIA0123456789ABCDEF",
    ],
)
def test_a_secret_is_known_by_its_name_or_form(text):
    assert "0123456789" not in variables.cleaned(text.encode(), ()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "step 100 tokens 1048576 loss 2.0",
        "token_embedding: 32000 x 4096",
        "[rank0]: Watchdog caught collective operation timeout",
        "tokens per second: 123456.7",
    ],
)
def test_what_only_looks_like_a_secret_stays(text):
    assert variables.cleaned(text.encode(), ()).decode() == text
