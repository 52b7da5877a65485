"""``bench tasks``: look at terminal tasks, generated or from folders; examine, export and verify them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.errors import CheckFailed, RequestError
from tasks.terminal.formats.convert import convert_task
from tasks.terminal.formats.export import export_task
from tasks.terminal.formats.foldertask import FolderTask
from tasks.terminal.formats.gate import Finding, examine_all
from tasks.terminal.formats.machine import Machines
from tasks.terminal.formats.manifest import REPORT, write_json, write_manifest
from tasks.terminal.formats.source import read_tasks
from tasks.terminal.generator.manifest import SIZES, TaskList, verify_manifest
from tasks.terminal.task import TerminalTask

app = typer.Typer(
    help="Terminal tasks, generated or from folders: list, show, validate, export, verify.",
    no_args_is_help=True,
)
out = Console()

Split = Annotated[
    str, typer.Option(help=f"One of: {', '.join(SIZES)}; of tasks from folders: train, heldout.")
]
Source = Annotated[
    str | None,
    typer.Option(
        "--tasks", help="Folder of task folders, Parquet or JSON rows, or a dataset on the Hugging Face hub."
    ),
]


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def _folder_tasks(source: str, split: str) -> list[FolderTask]:
    splits = read_tasks(source)
    if split not in splits:
        raise RequestError(f"--split {split}: accepted: {', '.join(splits)}")
    return splits[split]


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
def list_(split: Split = "heldout", source: Source = None) -> None:
    """Id, family, difficulty and instruction of every task of a split."""
    tasks = _tasks(split) if source is None else _folder_tasks(source, split)
    for task in tasks:
        _say(f"{task.task_id}  {task.family}  {task.difficulty}  {' '.join(task.instruction.split())}")


@app.command()
def show(task_id: str, source: Source = None) -> None:
    """Everything about a task, its solutions too."""
    if source is not None:
        _show_folder_task(source, task_id)
        return
    task = _find(task_id)
    _say(f"{task.task_id}: {task.family}, difficulty {task.difficulty}, sha256 {task.fingerprint}")
    _say(f"instruction: {task.instruction}")
    for path, entry in sorted(task.files.items()):
        _say(f"file: {path} {entry.kind} {entry.mode:o} {entry.target or entry.content!r}")
    for check in task.checks:
        _say(f"check: {check.to_json()}")
    for commands in task.experts:
        _say(f"expert: {' ; '.join(commands)}")
    for commands in task.flawed:
        _say(f"flawed: {' ; '.join(commands)}")


def _show_folder_task(source: str, task_id: str) -> None:
    known = {task.task_id: task for tasks in read_tasks(source).values() for task in tasks}
    if task_id not in known:
        raise RequestError(
            f"task {task_id!r} is not in {source}; accepted: an id that `bench tasks list --tasks` prints"
        )
    task = known[task_id]
    _say(f"{task.task_id}: {task.layout}, {task.family}, difficulty {task.difficulty}")
    _say(f"folder: {task.folder}, sha256 {task.fingerprint}")
    _say(f"instruction: {task.instruction}")
    _say(f"limits: {task.limits}")
    _say(f"verifier: {task.verifier.kind} {' '.join(task.verifier.targets)}")
    if task.truth is not None:
        _say(f"truth: {task.truth}")
    for command in task.solution.commands if task.solution else ():
        _say(f"solution: {command}")
    _say(f"{task.build_file}:\n{task.build_text}")
    for path, entry in sorted(task.tests.items()):
        _say(f"{path}:\n{(entry.content or b'').decode(errors='replace')}")


@app.command()
def validate(
    source: Annotated[str, typer.Argument(help="As --tasks of `bench run` takes it.")],
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the report and the manifest; by default the tasks'."),
    ] = None,
    sandbox: Annotated[str, typer.Option(help="auto, bubblewrap or docker.")] = "auto",
    concurrency: Annotated[int | None, typer.Option(help="Tasks at once; by default one per core.")] = None,
) -> None:
    """Examine every task (it builds, its initial test passes, its final test fails untouched, its solution passes) and write
    a report and the manifest of the usable ones. Exit code 1 when a task is not usable."""
    from tasks.terminal.sandbox.select import select_backend

    tasks = [task for split in read_tasks(source).values() for task in split]
    folder = out_dir or _beside(source)
    machines = Machines(select_backend(sandbox))
    at_once = concurrency or len(os.sched_getaffinity(0))
    findings = asyncio.run(examine_all(machines, tasks, at_once, _say_finding))
    good = {finding.task_id for finding in findings if finding.usable}
    report = write_json(folder / REPORT, {"source": source, "tasks": [f.to_json() for f in findings]})
    manifest = write_manifest(folder, source, [task for task in tasks if task.task_id in good])
    _say(f"{len(good)} of {len(tasks)} tasks are usable; report: {report}; manifest: {manifest}")
    if len(good) < len(tasks):
        raise CheckFailed(
            f"{len(tasks) - len(good)} of {len(tasks)} tasks are not usable; {report} says why, and runs use the others"
        )


def _beside(source: str) -> Path:
    path = Path(source)
    if not path.exists():
        raise RequestError(
            f"{source} is no local folder or file; accepted: --out and a folder for the report"
        )
    return path if path.is_dir() else path.parent


def _say_finding(finding: Finding) -> None:
    if finding.usable:
        _say(f"usable    {finding.task_id}  ({finding.seconds:.1f} s)")
        return
    where = (
        f"{finding.file}, line {finding.line}: "
        if finding.line
        else f"{finding.file}: "
        if finding.file
        else ""
    )
    _say(f"unusable  {finding.task_id}: {where}{finding.reason}")


@app.command()
def export(
    out_dir: Annotated[Path, typer.Option("--out", help="Folder to make; a folder per task goes into it.")],
    layout: Annotated[str, typer.Option("--format", help="endless or harbor.")] = "endless",
    split: Split = "heldout",
    limit: Annotated[int | None, typer.Option(help="At most so many tasks.")] = None,
    source: Source = None,
) -> None:
    """Write tasks as folders that Endless Terminals or Harbor read, each with a pytest of the same verdict."""
    if layout not in ("endless", "harbor"):
        raise RequestError(f"--format {layout}: accepted: endless, harbor")
    if source is not None:
        count = _export_folder_tasks(_folder_tasks(source, split)[:limit], out_dir, layout)
    else:
        tasks = _tasks(split)[: limit if limit is not None else SIZES.get(split, 0)]
        _refuse_existing(out_dir)
        for task in tasks:
            export_task(task, out_dir / task.task_id, layout)  # type: ignore[arg-type]
        count = len(tasks)
    out.print(f"{count} tasks written to {out_dir}", highlight=False)


def _export_folder_tasks(tasks: list[FolderTask], out_dir: Path, layout: str) -> int:
    """All of them, or nothing."""
    _refuse_existing(out_dir)
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=out_dir.parent) as temporary:
        for task in tasks:
            convert_task(task, Path(temporary) / "tasks" / task.task_id, layout)  # type: ignore[arg-type]
        if tasks:
            (Path(temporary) / "tasks").rename(out_dir)
    return len(tasks)


def _refuse_existing(out_dir: Path) -> None:
    if out_dir.exists():
        raise RequestError(f"--out {out_dir}: exists; accepted: a new folder")


@app.command()
def verify() -> None:
    """Generate every list anew and compare it with the frozen manifest."""
    verify_manifest()
    out.print(f"all {sum(SIZES.values())} tasks are the frozen ones", highlight=False)
