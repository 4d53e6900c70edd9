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
        "python train.py --wandb-key 0123456789abcdef0123456789abcdef01234567",
        "GET /shard?X-Amz-Signature=0123456789abcdef0123456789abcdef HTTP/1.1",
        "https://acct.blob.example/c/x?sv=2022&sig=Zm9v0123456789YmF6cXV4%2Babc%3D",
        "authorization: Basic Zm9v0123456789YmF6cXV4",
        "AccountKey=Zm9v0123456789YmF6cXV4==;EndpointSuffix=core",
        "-----BEGIN PRIVATE KEY-----\nMIIE0123456789vQ\n-----END PRIVATE KEY-----",
        "https://hooks.slack.com/services/T0123456789/B0123456789/abcdef",
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
        "KeyError: 'model.layers.12.self_attn.q_proj.weight'",
        "Missing key(s) in state_dict: optimizer_0123456789abcdef0123",
        "NCCL INFO comm 0x55d0 rank 3 key 0x0123456789abcdef",
        "store key /worker/3 default_pg/0//cuda//0 was not set",
    ],
)
def test_what_only_looks_like_a_secret_stays(text):
    assert variables.cleaned(text.encode(), ()).decode() == text


@pytest.mark.parametrize("text", [b"0", b"a-", b"token-", b"eyJ", b"://a:", b"key\\"])
def test_a_line_of_hundreds_of_kilobytes_is_passed_once(text):
    # time by the square of its length would be hours
    line = text * (300_000 // len(text))
    assert variables.cleaned(line, ()) == line
