"""A run directory: self-contained, and all that reports, audits and replays ever read.

config.toml              the experiment, resolved
manifest.json            what it was made with (harness.manifest)
events.jsonl             the event log, which is also the checkpoint (harness.events)
eval/*.jsonl             a row per task and evaluation pass (harness.evaluation)
trajectories/*.jsonl.gz  episodes turn by turn
checkpoints/             weights and optimiser of the last two versions, for methods whose updates are not in the log (GRPO)
final.safetensors        fp32 weights after the last update
"""

from __future__ import annotations

import fcntl
import gzip
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from harness import events, files
from harness.config import Experiment, experiment, read_toml
from harness.errors import InfrastructureError, RequestError
from harness.interfaces import Trajectory


class RunDirectory:
    """Paths and content of one run directory. Reading never writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.manifest = path / "manifest.json"
        self.events = path / events.FILE
        self.evaluations = path / "eval"
        self.trajectories = path / "trajectories"
        self.final = path / "final.safetensors"
        self._lock: TextIO | None = None

    @classmethod
    def existing(cls, path: Path) -> RunDirectory:
        """Raises RequestError where ``path`` is no run directory."""
        run = cls(path)
        if not run.config.is_file() or not run.events.is_file():
            raise RequestError(
                f"{path}: not a run directory (it needs config.toml and {events.FILE}); accepted: a folder that `bench run` made"
            )
        return run

    @staticmethod
    def check_unused(path: Path) -> None:
        """Raises RequestError where ``path`` is anything but a new or empty folder."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RequestError(
                f"--out {path}: exists and is not an empty folder; accepted: a new folder (or --resume {path} for a run)"
            )

    @classmethod
    def create(cls, path: Path, resolved: Experiment, manifest: dict[str, Any]) -> RunDirectory:
        """Make a new one. Raises RequestError where the folder is in use or cannot be written; then nothing is left."""
        cls.check_unused(path)
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        run = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            run.evaluations.mkdir()
            run.trajectories.mkdir()
            files.write_text(run.config, resolved.to_toml())
            files.write_json(run.manifest, manifest)
        except (OSError, InfrastructureError) as error:
            for folder in made:
                shutil.rmtree(folder, ignore_errors=True)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RequestError(
                f"--out {path}: cannot be written ({reason}); accepted: a folder that can"
            ) from error
        return run

    def remove(self) -> None:
        """Undo :meth:`create` for a run that never began."""
        self.unlock()
        shutil.rmtree(self.path, ignore_errors=True)

    def lock(self) -> None:
        """Hold the run for this process; the lock ends with it. Raises RequestError when another process holds it."""
        self._lock = (self.path / ".lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise RequestError(
                f"{self.path}: another process is running this run; wait for it or stop it"
            ) from None

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            (self.path / ".lock").unlink(missing_ok=True)
            self._lock = None

    def experiment(self) -> Experiment:
        return experiment(read_toml(self.config), str(self.config))

    def read_manifest(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.manifest.read_text()))
        except (OSError, ValueError) as error:
            raise RequestError(f"{self.manifest}: cannot be read: {error}") from error

    def read_events(self) -> list[events.Event]:
        return events.read_events(self.events)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Rows of one evaluation file (``evaluated`` events name it)."""
        return list(_json_lines(self.evaluations / name))

    def write_rows(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        files.write_text(
            self.evaluations / name, "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
        )

    def write_trajectories(self, name: str, items: Iterable[dict[str, Any]]) -> None:
        data = "".join(json.dumps(item) + "\n" for item in items).encode()
        files.write_bytes(self.trajectories / name, gzip.compress(data, compresslevel=6, mtime=0))

    def read_trajectories(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """``(file name, trajectory)`` of every episode kept."""
        for path in sorted(self.trajectories.glob("*.jsonl.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    yield path.name, json.loads(line)


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror})") from error
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise RequestError(f"{path}: line {number} is damaged: {error}") from error


def trajectory_record(trajectory: Trajectory, **labels: Any) -> dict[str, Any]:
    """A trajectory as JSON: texts, actions, rewards, counts and times; token ids are left out."""
    return {
        **labels,
        "task": trajectory.task_id,
        "family": trajectory.family,
        "difficulty": trajectory.difficulty,
        "return": trajectory.episode_return,
        "success": trajectory.success,
        "truncated": trajectory.truncated,
        "attempts": trajectory.attempts,
        "error": trajectory.error,
        "turns": [
            {
                "observation": turn.observation.text,
                "reply": turn.reply,
                "action": [turn.action.kind, turn.action.argument],
                "tokens": len(turn.token_ids),
                "finish": turn.finish,
                "reward": turn.result.reward,
                "invalid": turn.result.invalid,
                "info": dict(turn.result.info),
                "policy_s": round(turn.policy_s, 6),
                "environment_s": round(turn.environment_s, 6),
            }
            for turn in trajectory.turns
        ],
    }
