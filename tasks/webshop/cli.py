"""``bench webshop``: generate and prepare catalogues, look at what a search finds. ``bench serve``: the shop over HTTP."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.errors import RequestError
from tasks.webshop.generator.generate import ATTRIBUTES_FILE, HUMAN_FILE, PRODUCTS_FILE, write_files
from tasks.webshop.goals import GoalSource
from tasks.webshop.nouns import HEURISTIC


class Goals(StrEnum):
    synthetic = "synthetic"
    human = "human"


class Mode(StrEnum):
    fixed = "fixed"
    original = "original"


app = typer.Typer(help="Catalogues of the web shop: generate, prepare, search.", no_args_is_help=True)
serve_app = typer.Typer(help="Serve a task suite over HTTP.", no_args_is_help=True)
out = Console()


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False, soft_wrap=True)


@app.command()
def generate(
    folder: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    products: Annotated[int, typer.Option(help="Products.", min=1, max=10_000_000)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the catalogue.", min=0)] = 0,
) -> None:
    """Write a generated catalogue in the three files of WebShop's format."""
    write_files(folder, products, seed)
    _say(f"{products} products written to {folder}: {PRODUCTS_FILE}, {ATTRIBUTES_FILE}, {HUMAN_FILE}")


@app.command()
def prepare(
    products: Annotated[str, typer.Option(help="items_shuffle.json, Parquet files, or a datasets hub name.")],
    attributes: Annotated[
        str, typer.Option(help="items_ins_v2.json, Parquet files, or a datasets hub name.")
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    human: Annotated[str | None, typer.Option(help="items_human_ins.json, for human goals.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of ranged prices and of the goals' bounds.", min=0)] = 0,
    tagger: Annotated[str, typer.Option(help=f"Nouns of titles: {HEURISTIC}, or spacy:MODEL.")] = HEURISTIC,
    limit: Annotated[int | None, typer.Option(help="Read at most so many products.", min=1)] = None,
) -> None:
    """Make a catalogue ready to shop in: mapped columns, search index, prices, goals. Bad records are reported and left out."""
    from tasks.webshop.catalogue import write
    from tasks.webshop.reading import read_instructions, read_products, read_table

    with out.status("reading") as status:
        facts = write(
            folder,
            read_products(products),
            read_table(attributes),
            read_instructions(human) if human else {},
            seed=seed,
            tagger_name=tagger,
            limit=limit,
            progress=lambda done: status.update(f"{done} products read"),
        )
    report = facts["report"]
    _say(f"{report['kept']} of {report['read']} products prepared in {folder}; nouns by {facts['tagger']}")
    for reason, count in report["skipped"].items():
        _say(f"  left out: {count}, {reason}")
    for field, count in report["bad"].items():
        _say(f"  bad {field}: {count}")
    for asin, field, message in report["examples"][:10]:
        _say(f"    {asin}: {field}: {message}")
    if len(report["examples"]) > 10:
        _say(f"    the first {len(report['examples'])} are listed in {folder / 'catalogue.json'}")


@app.command()
def search(
    words: Annotated[str, typer.Argument(help="Words to search for.")],
    catalogue: Annotated[str, typer.Option(help="generated, or a prepared folder.")] = "generated",
    limit: Annotated[int, typer.Option(help="Results to print.", min=1, max=50)] = 10,
) -> None:
    """Print what a search finds, with scores."""
    from tasks.webshop.shop import open_catalogue

    shop = open_catalogue(catalogue, 1000, 0)
    for number, score in shop.scored(words)[:limit]:
        product = shop.product(number)
        _say(f"{score:8.4f}  {product.asin}  {product.title}  {product.price_tag}")


@serve_app.callback()
def _serve() -> None:
    """Serve a task suite over HTTP."""


@serve_app.command("webshop")
def serve_webshop(
    catalogue: Annotated[str, typer.Option(help="generated, or a prepared folder.")] = "generated",
    products: Annotated[int, typer.Option(help="Of the generated catalogue.", min=50)] = 1000,
    catalogue_seed: Annotated[int, typer.Option(help="Of the generated catalogue.", min=0)] = 0,
    goals: Annotated[Goals, typer.Option(help="Which goals sessions have.")] = Goals.synthetic,
    compat: Annotated[Mode, typer.Option(help="fixed, or original with its traps.")] = Mode.fixed,
    results_per_page: Annotated[int, typer.Option(help="Products on a page of results.", min=1, max=50)] = 10,
    attributes: Annotated[bool, typer.Option(help="Show a button for a product's attributes.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 3000,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further names that requests may have in Host; may be repeated.")
    ] = None,
    sessions: Annotated[int, typer.Option(help="Sessions at once.", min=1)] = 10_000,
    session_ttl: Annotated[
        float, typer.Option(help="Seconds after which an idle session ends.", min=1)
    ] = 1800.0,
) -> None:
    """Serve the shop: pages for people, an API for agents (/openapi.json)."""
    import uvicorn

    from tasks.webshop.server import create_app
    from tasks.webshop.settings import ServerSettings
    from tasks.webshop.shop import open_catalogue

    opened = open_catalogue(catalogue, products, catalogue_seed)
    source: GoalSource = goals.value
    count = opened.goal_count(source)
    if not count:
        raise RequestError(f"--catalogue {catalogue}: it has no {source} goals; accepted: one that has")
    defaults = ServerSettings()
    settings = ServerSettings(
        goals=source,
        compat=compat.value,
        results_per_page=results_per_page,
        show_attributes=attributes,
        hosts=(*defaults.hosts, *(name.lower() for name in allow_host or ())),
        session_limit=sessions,
        session_ttl_s=session_ttl,
    )
    _say(f"{len(opened)} products, {count} {source} goals: http://{host}:{port or '(a free port)'}/")
    uvicorn.run(
        create_app(opened, settings),
        host=host,
        port=port,
        log_level="info" if port == 0 else "warning",
        access_log=False,
        server_header=False,
        date_header=False,
    )
