"""Executors of running clusters, for evidence that is too large for one host.

Dask rather than Ray: its client is an `Executor`, it is pure Python, and a task whose
worker is killed is rescheduled. The workers need ncclforensics installed and the
evidence under the same paths.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

RETRIES = 3  # of a task that raised; a lost worker does not count
SECONDS = 15  # timeout to reach the scheduler


@contextmanager
def executor(address: str) -> Iterator[Executor]:
    """Yield the executor of an address such as `dask:tcp://host:8786`.

    Raises UsageError on another kind, if dask is not installed, or if the scheduler
    does not answer.
    """
    kind, _, where = address.partition(":")
    if kind != "dask" or not where:
        raise UsageError(f"--executor takes dask:ADDRESS, not {address!r}")
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            "--executor dask:… needs `pip install 'ncclforensics[dask]'`"
        ) from None
    try:
        connect: Any = Client
        client = connect(where, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"no dask scheduler at {where}: {error}") from error
    with client:
        make: Any = client.get_executor
        yield make(pure=False, retries=RETRIES)
