"""This node's share: the folder that is written, and the manifest of what is in it.

Text is cleaned of secrets and names before it is written; nothing is written outside
the folder, and nobody else may read it. `manifest.json` lists each thing that was
asked, with its exit code, seconds, bytes and file, or why there is none.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ncclforensics.collect import files, variables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ncclforensics.collect.children import Answer
    from ncclforensics.collect.redaction import Redactor

MOST_BYTES = 512 << 20  # of all files of a node
# programs whose output is an answer also where they fail
BY_EXIT_CODE = frozenset(("systemctl", "ping", "nvidia-smi"))


@dataclass
class Share:
    """The folder of one node; `secrets` are values that must not be in it."""

    folder: Path
    redactor: Redactor
    secrets: set[str] = field(default_factory=set)
    asked: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0
    size: int = 0

    def cleaned(self, data: bytes) -> bytes:
        """Return text without secrets and, as asked, without names."""
        return self.redactor.text(variables.cleaned(data, self.secrets))

    def words(self, text: str) -> str:
        """Return `cleaned` for a string."""
        return self.cleaned(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def write(
        self, name: str, data: bytes, modified: int | None = None, *, text: bool = True
    ) -> str:
        """Write one file and return its name; `modified` is in ns since 1970."""
        name = self.words(name)
        path = self.folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = self.cleaned(data) if text else data
        path.write_bytes(data)
        if modified is not None:
            os.utime(path, ns=(modified, modified))
        self.files += 1
        self.size += len(data)
        return name

    def keep(self, answer: Answer, look: str = "") -> None:
        """Write what an answer holds to the file of its question, and note it."""
        question, file = answer.question, answer.question.file
        row: dict[str, Any] = {"asked": question.name}
        row["seconds"] = round(answer.seconds, 3)
        modified, data = None, answer.data
        if callable(question.ask) and not answer.why_not:
            modified, data = files.unstamped(data)
        is_log = file is not None and file.startswith("logs/")
        failed = bool(answer.why_not) and not _tells_by_its_exit_code(answer)
        if file is not None and not failed and self.size + len(data) < MOST_BYTES:
            is_dump = "dumps/" in file
            row["file"] = self.write(look + file, data, modified, text=not is_dump)
            row["bytes"] = len(data)
        elif file is not None and not failed:
            row["why_not"] = "more than is kept of one node"
        if is_log:
            row["asked"] = f"log {question.name}"
        if answer.exit is not None:
            row["exit"] = answer.exit
        if answer.why_not:
            row["why_not"] = answer.why_not
        self._note(row)

    def miss(self, reasons: Mapping[str, str]) -> None:
        """Note what was not asked, and why."""
        for name, why in reasons.items():
            self._note({"asked": name, "why_not": why})

    def _note(self, row: dict[str, Any]) -> None:
        told = {k: self.words(v) if isinstance(v, str) else v for k, v in row.items()}
        if told not in self.asked:
            self.asked.append(told)

    def document(self, name: str, told: Mapping[str, Any], rows: str) -> None:
        """Write a JSON object; each row of its list `rows` is a line, to be cited."""
        values = [(key, _json(told[key])) for key in told if key != rows]
        values.append((rows, "[\n" + ",\n".join(map(_json, told[rows])) + "\n]"))
        text = ",\n".join(f'"{key}": {value}' for key, value in values)
        self.write(name, f"{{{text}}}\n".encode("utf-8", "replace"))


def _tells_by_its_exit_code(answer: Answer) -> bool:
    ask = answer.question.ask
    return not callable(ask) and ask[0] in BY_EXIT_CODE and bool(answer.data)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def iso(seconds: float) -> str:
    """Return a time in seconds since 1970 as `2026-01-02T03:04:05.678Z`."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"
