"""``bench tasks``: look at the generated terminal tasks and export them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.errors import RequestError
from tasks.terminal.formats.export import export_task
from tasks.terminal.generator.manifest import SIZES, TaskList, verify_manifest
from tasks.terminal.task import TerminalTask

app = typer.Typer(help="The generated terminal tasks: list, show, export, verify.", no_args_is_help=True)
out = Console()

Split = Annotated[str, typer.Option(help=f"One of: {', '.join(SIZES)}.")]


def _tasks(split: str) -> TaskList:
    if split not in SIZES:
        raise RequestError(f"--split {split}: accepted: {', '.join(SIZES)}")
    return TaskList(split)


def _find(task_id: str) -> TerminalTask:
    split, _, number = task_id.rpartition("-")
    if split not in SIZES or not number.isdigit() or int(number) >= SIZES[split]:
        raise RequestError(f"task {task_id!r} is not known; accepted: an id that `bench tasks list` prints")
    return TaskList(split)[int(number)]


@app.command("list")
def list_(split: Split = "heldout") -> None:
    """Id, family, difficulty and instruction of every task of a split."""
    for task in _tasks(split):
        out.print(
            f"{task.task_id}  {task.family}  {task.difficulty}  {task.instruction}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


@app.command()
def show(task_id: str) -> None:
    """Everything about a task, its solutions too."""
    task = _find(task_id)
    say = lambda text: out.print(text, markup=False, highlight=False, soft_wrap=True)  # noqa: E731
    say(f"{task.task_id}: {task.family}, difficulty {task.difficulty}, sha256 {task.fingerprint}")
    say(f"instruction: {task.instruction}")
    for path, entry in sorted(task.files.items()):
        say(f"file: {path} {entry.kind} {entry.mode:o} {entry.target or entry.content!r}")
    for check in task.checks:
        say(f"check: {check.to_json()}")
    for commands in task.experts:
        say(f"expert: {' ; '.join(commands)}")
    for commands in task.flawed:
        say(f"flawed: {' ; '.join(commands)}")


@app.command()
def export(
    out_dir: Annotated[Path, typer.Option("--out", help="Folder to make; a folder per task goes into it.")],
    layout: Annotated[str, typer.Option("--format", help="endless or harbor.")] = "endless",
    split: Split = "heldout",
    limit: Annotated[int | None, typer.Option(help="At most so many tasks.")] = None,
) -> None:
    """Write tasks as folders that Endless Terminals or Harbor read, each with a pytest of the same verdict."""
    if layout not in ("endless", "harbor"):
        raise RequestError(f"--format {layout}: accepted: endless, harbor")
    tasks = _tasks(split)[: limit if limit is not None else SIZES.get(split, 0)]
    if out_dir.exists():
        raise RequestError(f"--out {out_dir}: exists; accepted: a new folder")
    for task in tasks:
        export_task(task, out_dir / task.task_id, layout)  # type: ignore[arg-type]
    out.print(f"{len(tasks)} tasks written to {out_dir}", highlight=False)


@app.command()
def verify() -> None:
    """Generate every list anew and compare it with the frozen manifest."""
    verify_manifest()
    out.print(f"all {sum(SIZES.values())} tasks are the frozen ones", highlight=False)
