"""The command line: parse, call, print. Exit codes: 0 done, 1 a check failed, 2 the request was wrong, 3 the infrastructure
failed, 130 interrupted."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from harness import errors
from harness.errors import BenchError, CheckFailed, RequestError

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train LLM agents with synchronous and asynchronous evolution strategies, and measure what asynchrony costs.",
)


def _console(**settings: Any) -> Console:
    """A console; one that writes to a file or a pipe is wide enough for the tables."""
    console = Console(**settings)
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=200, **settings)


out = _console()
err = _console(stderr=True)

RUNS = Path("results/runs")


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    if value is not None:
        table[key] = value


def _experiment(config: Path | None, over: Mapping[str, Any]) -> Any:
    from harness.config import experiment, merge, read_toml

    base = read_toml(config) if config else {}
    named = over.get("method", {}).get("name")
    if named is not None and base.get("method", {}).get("name") not in (None, named):
        base = {**base, "method": _shared(named, base["method"])}
    return experiment(merge(base, over), str(config) if config else "the command line")


def _shared(method: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a method's table that another method has too."""
    from harness.registry import method_class

    fields = method_class(method).Settings.model_fields
    return {key: value for key, value in table.items() if key in fields}


@app.command()
def run(
    method: Annotated[str | None, typer.Option(help="Method: see `bench list`.")] = None,
    suite: Annotated[str | None, typer.Option(help="Task suite: see `bench list`.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Task folders or rows instead of the generated tasks (terminal suite).")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="'embedded', a folder, a finished run, or a hub name.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Inference engine: torch.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Experiment file (TOML); the other options override it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Run seed, from which every random stream is derived.")
    ] = None,
    updates: Annotated[int | None, typer.Option(help="Updates to make.")] = None,
    population: Annotated[int | None, typer.Option(help="Measurements per update.")] = None,
    tasks_per_member: Annotated[int | None, typer.Option(help="Training tasks per member.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of the perturbation.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Step size.")] = None,
    delay: Annotated[
        int | None,
        typer.Option(help="Controlled schedule: updates by which held-back measurements are late."),
    ] = None,
    delay_fraction: Annotated[
        float | None, typer.Option(help="Share of the measurements held back (0.1).")
    ] = None,
    max_staleness: Annotated[int | None, typer.Option(help="Natural asynchrony: the bound S.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes (one per core).")] = None,
    sandbox: Annotated[
        str | None, typer.Option(help="auto, bubblewrap, docker or unsafe-local (terminal suite).")
    ] = None,
    eval_seeds: Annotated[
        int | None, typer.Option(help="Sampled evaluation passes (a greedy one is always made).")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Run directory to make.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Run directory to continue; takes no other option.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done; write nothing.")
    ] = False,
) -> None:
    """Train, evaluate on held-out tasks before and after, and record everything in a run directory."""
    over: dict[str, Any] = {}
    _set(over, "seed", seed)
    tables: dict[str, dict[str, Any]] = {
        "method": {},
        "suite": {},
        "policy": {},
        "workers": {},
        "evaluation": {},
    }
    for key, value in (
        ("name", method),
        ("updates", updates),
        ("population", population),
        ("tasks_per_member", tasks_per_member),
        ("sigma", sigma),
        ("alpha", alpha),
        ("delay", delay),
        ("delay_fraction", delay_fraction),
        ("max_staleness", max_staleness),
    ):
        _set(tables["method"], key, value)
    _set(tables["suite"], "name", suite)
    _set(tables["suite"], "tasks", tasks)
    _set(tables["suite"], "sandbox", sandbox)
    _set(tables["policy"], "model", model)
    _set(tables["policy"], "engine", engine)
    _set(tables["workers"], "count", workers)
    _set(tables["evaluation"], "seeds", eval_seeds)
    over.update({name: table for name, table in tables.items() if table})
    if resume is not None:
        if over or config or out_dir or dry_run:
            raise RequestError(
                "--resume continues a run with its own settings; accepted: --resume DIR and no other option"
            )
        _resume(resume)
        return
    experiment = _experiment(config, over)
    if dry_run:
        _print_plan(experiment)
        return
    _start(experiment, out_dir or _default_out(experiment))


def _default_out(experiment: Any) -> Path:
    from harness.report.arms import label

    words = label(experiment.method_name, experiment.method.model_dump()).replace(" %", "pc").replace(",", "")
    stem = f"{experiment.suite_name}-{words.replace(' ', '-')}-seed{experiment.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = RUNS / stem
    number = 2
    while path.exists():
        path = RUNS / f"{stem}-{number}"
        number += 1
    return path


def _print_plan(experiment: Any) -> None:
    from harness import registry
    from harness.evaluation import spread

    suite = registry.suite_class(experiment.suite_name)(experiment.suite)
    plan = registry.method_class(experiment.method_name)(experiment.method).plan()
    table = experiment.evaluation
    held_out = sum(len(spread(len(suite.tasks(split)), table.limit)) for split in table.splits)
    plan["evaluation_episodes"] = held_out * (1 + table.seeds) * (2 if table.before else 1)
    out.print(experiment.to_toml(), highlight=False, markup=False, end="")
    out.print("\n[bold]plan[/bold]")
    for key, value in plan.items():
        out.print(f"  {key} = {value}", highlight=False)


def _title(experiment: Any, path: Path) -> str:
    return f"{experiment.method_name} on {experiment.suite_name} -> {path}"


def _start(experiment: Any, path: Path) -> None:
    from harness import registry
    from harness.progress import RunProgress
    from harness.run import start

    method = registry.method_class(experiment.method_name)(experiment.method)
    try:
        with RunProgress(out, method.updates, _title(experiment, path)) as progress:
            start(experiment, path, ["bench", *sys.argv[1:]], listen=progress, advance=progress.advance)
    except KeyboardInterrupt:
        err.print(f"interrupted; to go on: bench run --resume {path}", highlight=False)
        raise
    _print_summary(path)


def _resume(path: Path) -> None:
    from harness import registry
    from harness.progress import RunProgress
    from harness.run import resume
    from harness.rundir import RunDirectory

    experiment = RunDirectory.existing(path).experiment()
    method = registry.method_class(experiment.method_name)(experiment.method)
    try:
        with RunProgress(out, method.updates, _title(experiment, path)) as progress:
            resume(path, listen=progress, advance=progress.advance)
    except KeyboardInterrupt:
        err.print(f"interrupted; to go on: bench run --resume {path}", highlight=False)
        raise
    _print_summary(path)


def _print_summary(path: Path) -> None:
    from harness.report.arms import read_arm
    from harness.rundir import RunDirectory

    directory = RunDirectory.existing(path)
    arm = read_arm(directory)
    _print_arms([arm])
    for line in arm.audit.lines():
        out.print(line, highlight=False)
    cost = arm.totals
    out.print(
        f"cost: {cost['episodes']} training episodes, {cost['tokens']} tokens, {cost['worker_s']:.1f} worker-seconds "
        f"(policy {cost['policy_s']:.1f}, noise {cost['noise_s']:.1f}, the rest mostly waiting for environments), "
        f"updates {cost['update_s']:.1f} s; {arm.wall_s:.1f} s in all",
        highlight=False,
    )
    finished = directory.read_events()[-1]
    if finished["kind"] == "run_finished":
        out.print(f"weights sha256 {finished['weights_sha256']}", highlight=False)
    if arm.audit.problems:
        raise CheckFailed("the run does not follow its schedule: " + "; ".join(arm.audit.problems))


_LEFT_OUT_BELOW = {
    170: ("run", "tokens", "worker-s", "missing"),
    120: ("mean staleness", "dropped, %", "episodes"),
}
"""Columns that a display of fewer characters leaves to the written tables (missing episodes are shown wherever there are any)."""


def _print_arms(arms: list[Any]) -> None:
    from harness.report.tables import COLUMNS, rows

    lines = rows(arms)
    missing = COLUMNS.index("missing")
    left_out = {
        column for width, columns in _LEFT_OUT_BELOW.items() if out.width < width for column in columns
    }
    if any(line[missing] != "0" for line in lines):
        left_out.discard("missing")
    if len(arms) > 1:
        left_out.discard("run")
    shown = [index for index, column in enumerate(COLUMNS) if column not in left_out]
    table = Table(title="held-out success, 95 % intervals clustered by task", title_justify="left")
    for index in shown:
        column = COLUMNS[index]
        words = column in ("run", "arm", "split", "decoding")
        table.add_column(column, justify="left" if words else "right", overflow="fold")
    for line in lines:
        table.add_row(*(line[index] for index in shown))
    out.print(table)


@app.command()
def report(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run directories; by default all under results/runs.")
    ] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the tables.")] = RUNS / "report",
) -> None:
    """Print the table of held-out results and write it as LaTeX and Markdown, from run directories alone."""
    from harness import files
    from harness.report.arms import read_arm
    from harness.report.tables import latex, markdown
    from harness.rundir import RunDirectory

    paths = runs or sorted(path.parent for path in RUNS.glob("*/events.jsonl"))
    if not paths:
        raise RequestError(f"{RUNS}: there is no run yet; accepted: run directories, which `bench run` makes")
    arms = [read_arm(RunDirectory.existing(path)) for path in paths]
    _print_arms(arms)
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(
            f"--out {out_dir}: cannot be written ({error.strerror}); accepted: a folder that can"
        ) from error
    files.write_text(out_dir / "results.tex", latex(arms))
    files.write_text(out_dir / "results.md", markdown(arms))
    out.print(f"written: {out_dir / 'results.tex'}, {out_dir / 'results.md'}", highlight=False)


@app.command("eval")
def evaluate(
    model: Annotated[str, typer.Option(help="A finished run, a model folder, 'embedded', or a hub name.")],
    suite: Annotated[
        str | None, typer.Option(help="Task suite; by default the run's, else terminal.")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(help="Splits to evaluate (heldout); may be repeated.")
    ] = None,
    eval_seeds: Annotated[int, typer.Option(help="Sampled passes beside the greedy one.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the decoding streams.")] = 0,
    limit: Annotated[int | None, typer.Option(help="At most so many tasks of each split.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes (one per core).")] = None,
    sandbox: Annotated[
        str | None, typer.Option(help="auto, bubblewrap, docker or unsafe-local (terminal suite).")
    ] = None,
    rows_file: Annotated[
        Path | None, typer.Option("--out", help="Write a row per episode to this JSONL file.")
    ] = None,
) -> None:
    """Evaluate any policy or finished run on held-out tasks, as `bench run` does."""
    from harness import files, scoring
    from harness.evaluate import evaluate_model
    from harness.report.tables import percent
    from harness.rundir import RunDirectory

    raw: dict[str, Any] = {"seed": seed, "policy": {"model": model}, "evaluation": {"seeds": eval_seeds}}
    if (Path(model) / "config.toml").is_file():
        table = RunDirectory.existing(Path(model)).experiment().table()
        raw["suite"] = table["suite"]
        raw["policy"] = {**table["policy"], "model": model}
    if suite is not None:
        raw["suite"] = {"name": suite}
    if sandbox is not None:
        raw.setdefault("suite", {})["sandbox"] = sandbox
    _set(raw["evaluation"], "limit", limit)
    _set(raw["evaluation"], "splits", split)
    if workers is not None:
        raw["workers"] = {"count": workers}
    experiment = _experiment(None, raw)
    with out.status("evaluating") as status:
        rows = evaluate_model(
            experiment, lambda done, total: status.update(f"evaluated {done} of {total} episodes")
        )
    table_out = Table("split", "decoding", "success, %", "score, %", "tasks", "seeds", "episodes", "missing")
    for part in dict.fromkeys(row["split"] for row in rows):
        mine = [row for row in rows if row["split"] == part]
        for decoding in dict.fromkeys(row["decoding"] for row in mine):
            success = scoring.score(scoring.outcomes(mine, decoding=decoding, source="evaluation"))
            returns = scoring.outcomes(mine, decoding=decoding, source="evaluation", value="return")
            mean = scoring.score(returns, binary=False)
            table_out.add_row(
                part,
                decoding,
                percent(success),
                percent(mean),
                str(success.tasks),
                str(success.seeds),
                str(success.episodes),
                str(success.missing),
            )
    out.print(table_out)
    if rows_file is not None:
        files.write_text(rows_file, "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))


@app.command()
def show(run_dir: Annotated[Path, typer.Argument(metavar="RUN")], task: str) -> None:
    """Print the trajectories of a task, turn by turn, from a run's record."""
    from harness.rundir import RunDirectory

    found = [
        (name, item)
        for name, item in RunDirectory.existing(run_dir).read_trajectories()
        if item["task"] == task
    ]
    if not found:
        raise RequestError(
            f"{run_dir}: no trajectory of task {task!r} is kept; accepted: a task id from eval/*.jsonl"
        )
    for name, item in found:
        how = item.get("decoding", "training")
        seed = item.get("evaluation_seed")
        outcome = item["error"] or ("success" if item["success"] else "failure")
        out.print(
            f"[bold]{item['task']}[/bold] {name}: {how}{'' if seed is None else f' seed {seed}'}, version {item['version']}: {outcome}",
            highlight=False,
        )
        for turn in item["turns"]:
            out.print(f"  > {turn['observation']}".replace("\n", "\n    "), highlight=False, markup=False)
            out.print(f"  < {turn['reply']}", highlight=False, markup=False, style="cyan")
        out.print()


@app.command()
def audit(run_dir: Annotated[Path, typer.Argument(metavar="RUN")]) -> None:
    """Prove from the event log that every member is accounted for and that the schedule asked for was delivered."""
    from harness import registry
    from harness.audit import audit as check
    from harness.rundir import RunDirectory

    directory = RunDirectory.existing(run_dir)
    experiment = directory.experiment()
    method = registry.method_class(experiment.method_name)(experiment.method)
    found = check(directory.read_events(), method.cohorts(experiment.seed))
    for line in found.lines():
        out.print(line, highlight=False)
    if found.problems:
        raise CheckFailed("\n".join(found.problems))
    out.print("every member is accounted for; the schedule was delivered as asked")


@app.command()
def replay(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN")],
    save: Annotated[Path | None, typer.Option(help="Write the rebuilt weights (safetensors).")] = None,
) -> None:
    """Rebuild the weights from the base and the seed log, and compare hashes with the recorded ones."""
    from harness.replay import replay as rebuild
    from harness.rundir import RunDirectory

    result, master = rebuild(RunDirectory.existing(run_dir))
    out.print(f"version {result.version}: weights sha256 {result.weights_sha256}", highlight=False)
    if save is not None:
        master.save(save)
    if result.mismatch is not None:
        raise CheckFailed(
            f"{run_dir}: the weights of version {result.mismatch} differ from what the run recorded"
        )
    out.print(f"all {result.checked} recorded hashes agree", highlight=False)


@app.command("list")
def list_(what: Annotated[str, typer.Argument(help="all, suites or methods.")] = "all") -> None:
    """Suites and methods that are installed, with their settings and defaults."""
    from harness import registry

    groups = {"suites": registry.SUITES, "methods": registry.METHODS}
    if what not in ("all", *groups):
        raise RequestError(f"bench list {what}: accepted: all, suites, methods")
    for title, group in groups.items():
        if what not in ("all", title):
            continue
        for name in registry.available(group):
            cls = registry.suite_class(name) if title == "suites" else registry.method_class(name)
            out.print(
                f"[bold]{title[:-1]} {name}[/bold]  {(cls.__doc__ or '').strip().splitlines()[0]}",
                highlight=False,
            )
            if getattr(cls, "source", None):
                out.print(f"  source: {cls.source}", highlight=False)
            for key, field in cls.Settings.model_fields.items():
                described = f"  {field.description}" if field.description else ""
                out.print(
                    f"  {key} = {field.get_default(call_default_factory=True)!r}{described}",
                    highlight=False,
                    markup=False,
                )


@app.command()
def doctor() -> None:
    """Probe this machine by running things: what works, and what to install for the rest."""
    from harness import registry
    from harness.doctor import machine

    probes = machine()
    for name in registry.available(registry.SUITES):
        probes += getattr(registry.suite_class(name), "probes", list)()
    table = Table("what", "works", "detail", "to mend it")
    for probe in probes:
        table.add_row(
            probe.name,
            "[green]yes[/green]" if probe.works else "[yellow]no[/yellow]",
            probe.detail,
            probe.remedy,
        )
    out.print(table)


def _mount(arguments: list[str]) -> None:
    """Add the commands that packages bring: the one asked for, or all of them for the help text."""
    from harness import registry

    names = registry.available(registry.COMMANDS)
    core = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    wanted = arguments[0] if arguments else ""
    for name in names:
        if wanted == name or wanted not in core:
            app.add_typer(registry.command_app(name), name=name)


def _as_typed(error: Exception, arguments: list[str]) -> str:
    """The refused value of an option, which the parser's sentence leaves out: `` (--delay 'x')``; empty for other errors."""
    for option in getattr(getattr(error, "param", None), "opts", ()):
        for index, argument in enumerate(arguments):
            name, sign, value = argument.partition("=")
            if name == option and (sign or index + 1 < len(arguments)):
                return f" ({option} {value if sign else arguments[index + 1]!r})"
    return ""


def main() -> None:
    """Entry point of the console script ``bench``."""
    try:
        _mount(sys.argv[1:])
        code = app(standalone_mode=False)
        # An interrupt and an early end come back as the value of the call.
        if isinstance(code, int) and code:
            sys.exit(code)
    except BenchError as error:
        err.print(f"bench: {error}", highlight=False, markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except Exception as error:
        if hasattr(error, "format_message"):
            message = f"bench: {error.format_message()}{_as_typed(error, sys.argv[1:])}"
            err.print(message, highlight=False, markup=False, soft_wrap=True)
            sys.exit(errors.EXIT_BAD_REQUEST)
        raise
