"""``bench warm-start``: makes a suite's embedded policy, evaluates it, and writes its model card from what was measured."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar

from baselines.warm_start import WarmStartReport, WarmStartSettings, warm_start
from harness import files, registry, scoring
from harness.config import experiment
from harness.errors import RequestError
from harness.evaluate import evaluate_model
from harness.report.tables import percent

app = typer.Typer(
    help="Make a suite's embedded policy from scratch: tokenizer, demonstrations, behaviour cloning, model card."
)
console = Console()


@app.callback(invoke_without_command=True)
def command(
    suite: Annotated[str, typer.Option(help="Task suite whose embedded policy is made.")] = "terminal",
    out: Annotated[Path | None, typer.Option(help="Folder to write; by default the suite's own.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, demonstrations and batches.")] = 0,
    demonstrations: Annotated[int | None, typer.Option(help="Demonstrations to play.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of behaviour cloning.")] = None,
    expert_share: Annotated[
        float | None, typer.Option(help="Share of the demonstrations that solve their task.")
    ] = None,
) -> None:
    """Make a suite's embedded policy from scratch: tokenizer, demonstrations, behaviour cloning, evaluation, model card."""
    cls = registry.suite_class(suite)
    instance = cls(cls.Settings())
    if not hasattr(instance, "demonstration_tasks"):
        raise RequestError(f"--suite {suite}: it gives no demonstrations; accepted: a suite that does")
    chosen = {"demonstrations": demonstrations, "steps": steps, "expert_share": expert_share}
    settings = WarmStartSettings(seed=seed, **{k: v for k, v in chosen.items() if v is not None})  # type: ignore[arg-type]
    target = out or instance.policy_dir()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".warm-start-") as temporary:
        folder = Path(temporary) / "policy"
        with Bar(console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("warm start", total=None)
            said: list[str] = []

            def progress(what: str, done: int, total: int) -> None:
                bar.update(task, description=what, completed=done, total=total)
                tenth = f"{what.split(',')[0]}: {10 * done // max(1, total)}0 %"
                if not console.is_terminal and tenth not in said:
                    said.append(tenth)
                    console.print(f"{tenth} ({what})", highlight=False)

            report = warm_start(instance, settings, folder, progress)
            resolved = experiment(
                {
                    "suite": {"name": suite},
                    "policy": {"model": str(folder)},
                    "evaluation": {"splits": list(_held_out(instance))},
                },
                "warm-start",
            )
            rows = evaluate_model(
                resolved,
                lambda done, total: progress("evaluation", done, total),
            )
        files.write_text(folder / "README.md", card(suite, settings, report, rows))
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(folder, target)
    for path in target.iterdir():
        path.chmod(0o644)
    console.print((target / "README.md").read_text(), markup=False, highlight=False)


def _held_out(suite: Any) -> tuple[str, ...]:
    return tuple(split for split in suite.splits() if split.startswith("heldout"))


def card(suite: str, settings: WarmStartSettings, report: WarmStartReport, rows: list[dict[str, Any]]) -> str:
    """The model card, every number of it from this run."""
    text = [
        f"# Embedded policy of the {suite} suite",
        "",
        f"A Qwen2 of {report.parameters:,} parameters (fp16 on disk) with a tokenizer of {report.vocabulary} tokens, made from scratch by",
        "",
        f"    bench warm-start --suite {suite} --seed {settings.seed} --demonstrations {settings.demonstrations} "
        f"--steps {settings.steps} --expert-share {settings.expert_share:g}",
        "",
        f"It cloned {report.demonstrations:,} scripted episodes, of which {100 * settings.expert_share:g} % solve their task and the rest "
        "err in plausible ways, so that it knows more than it usually does. "
        f"{report.tokens_per_demonstration:.0f} tokens an episode; final loss {report.loss:.3f}; {report.cpu_s:.0f} CPU-seconds of one "
        f"process, {report.wall_s:.0f} s in all.",
        "",
        "It speaks the language of its generated tasks and nothing else.",
        "",
        "## Held-out success, %",
        "",
        "95 % intervals; greedy over tasks (Wilson), sampled at temperature 1 over tasks with "
        "three evaluation seeds (t, clustered by task).",
        "",
        "| split | family | tasks | greedy | sampled |",
        "|---|---|---|---|---|",
    ]
    for split in dict.fromkeys(row["split"] for row in rows):
        mine = [row for row in rows if row["split"] == split]
        for family in ["all", *sorted({row["family"] for row in mine})]:
            chosen = [row for row in mine if family in ("all", row["family"])]
            scores = [
                scoring.score(scoring.outcomes(chosen, decoding=decoding, source="evaluation"))
                for decoding in ("greedy", "sampled")
            ]
            text.append(
                f"| {split} | {family} | {scores[0].tasks} | {percent(scores[0])} | {percent(scores[1])} |"
            )
    text += ["", "## Settings", "", *(f"- {k} = {v}" for k, v in dataclasses.asdict(settings).items()), ""]
    return "\n".join(text)
