"""Which environment variables are kept, and what in them or elsewhere is a secret.

Only names that begin as one of ALLOWED are kept, and of those none that sounds like a
secret. The values of secret variables are learned, never written: they are replaced in
everything else, as a log or a command line may repeat them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALLOWED = re.compile(
    r"(?:NCCL_|RCCL_|TORCH|PYTORCH|MASTER_|CUDA_|NVIDIA_(?:VISIBLE|DRIVER)|HIP_|ROCR_"
    r"|HSA_|SLURM|PMI|OMPI_|PMIX_|PRTE_|MPI|GLOO_|UCX_|UCC_|FI_|OMP_NUM|MKL_NUM|TP_"
    r"|TF_CONFIG|RAY_|KUBERNETES_(?:NODE|POD)|JOB_COMPLETION_INDEX|HOROVOD_|DEEPSPEED"
    r"|ACCELERATE_|FSDP_|MEGATRON|NVTE_|LD_LIBRARY_PATH$|LD_PRELOAD$|HOSTNAME$"
    r"|PYTHON(?:FAULTHANDLER|UNBUFFERED|HASHSEED|PATH)$|VIRTUAL_ENV$|CONDA_PREFIX$"
    r"|(?:LOCAL_|GROUP_|ROLE_|NODE_)?(?:RANK|WORLD_SIZE)$|NNODES$|ROLE_NAME$)"
)
DENIED = re.compile(
    r"KEY|TOKEN|SECRET|PASS(?!IVE|_?THROUGH)|PWD|CRED|AUTH|COOKIE|PRIVATE|SIGNATURE"
    r"|BEARER|JWT|CERT|LICEN[CS]E|WEBHOOK|DSN$|_SID$|MUNGE",
    re.IGNORECASE,
)
# a name and a value in other text: --api-key=…, "password": "…", TOKEN=…; all patterns
# are bounded where they repeat, as a line may have megabytes
_QUOTE = rb"(?:\\{0,9}[\"'])?"
_ASSIGNED = re.compile(
    rb"(?i)((?<![a-z])(?:api_?-?key|access_?-?key|secret(?:_?-?key)?|token|password"
    rb"|passwd|bearer)"
    + _QUOTE
    + rb"(?:\s{0,9}[=:]\s{0,9}|\s{1,9}(?=[^\s\-=:]{16}))"
    + _QUOTE
    + rb")([^\s\"',;&\\]{6,})"
)
# names of which many are harmless: secret where the value is a word that nobody types
_OPAQUE = re.compile(
    rb"(?i)((?:key|(?<![a-z])(?:sig|signature|credentials?|auth|authorization"
    rb"|passphrase|private|session|cookie|jwt|webhook))"
    + _QUOTE
    + rb"(?:\s{0,9}[=:]\s{0,9}|\s{1,9})(?:basic\s{1,9})?"
    + _QUOTE
    + rb")(?=[a-z+/=%]{0,60}\d)([a-z0-9+%][a-z0-9+/=%]{19,})"
)
_PEM = re.compile(rb"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)")
_IN_URL = re.compile(rb"(://[^/\s:@]{0,64}:)[^/\s@]{1,256}(@)")
# tokens that are known by their form, whatever their name
_FORMS = re.compile(
    rb"\b(?:hf_[A-Za-z0-9]{20,}|gh[opsu]_[A-Za-z0-9]{30,}|glpat-[\w-]{20,}"
    rb"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|nvapi-[\w-]{20,}|sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[\w-]{10,}"
    rb"|hooks\.slack\.com/services/[\w/]+|eyJ[\w-]{10,9999}\.eyJ[\w-]{10,9999}\.[\w-]+)"
)
HIDDEN = "<secret>"
SHORTEST = 8  # a shorter value may be a word of any text


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are allowed and not denied, by name."""
    names = sorted(n for n in environment if ALLOWED.match(n) and not DENIED.search(n))
    return {name: environment[name] for name in names}


def secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the values of variables whose names are denied.

    Words too short to be told from other text and paths are none.
    """
    return {
        value
        for name, value in environment.items()
        if DENIED.search(name)
        and len(value) >= SHORTEST
        and not value.startswith("/")
        and not value.isdigit()
    }


def cleaned(data: bytes, known: Iterable[str]) -> bytes:
    """Return text without `known` values, and without what has a secret's form."""
    hidden = HIDDEN.encode()
    for value in sorted(known, key=len, reverse=True):
        for told in {value, json.dumps(value)[1:-1]}:  # as it is, and inside JSON
            data = data.replace(told.encode("utf-8", "surrogateescape"), hidden)
    data = _IN_URL.sub(rb"\1" + hidden + rb"\2", data)
    data = _PEM.sub(rb"\1" + hidden, data)
    data = _FORMS.sub(hidden, data)
    data = _OPAQUE.sub(rb"\1" + hidden, data)
    return _ASSIGNED.sub(rb"\1" + hidden, data)
