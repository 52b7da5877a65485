"""The WebShop suite: goals of a catalogue as tasks, the agent, the environments, and demonstrations for the warm start."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from harness.config import Table
from harness.doctor import Probe
from harness.errors import InfrastructureError, RequestError
from harness.interfaces import Agent, Environment, Task
from tasks.webshop.agent import Prompt, webshop_agent
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.client import WebShopClientEnvironment, check_server
from tasks.webshop.environment import WebShopEnvironment
from tasks.webshop.goals import SPLITS, GoalSource
from tasks.webshop.pages import ObservationMode
from tasks.webshop.reward import Compat
from tasks.webshop.session import SessionSettings
from tasks.webshop.shop import GENERATED, open_catalogue
from tasks.webshop.task import TaskList, WebShopTask


class WebShopSettings(Table):
    catalogue: str = GENERATED
    """generated, or a folder of ``bench webshop prepare``."""
    products: int = Field(default=1000, ge=50, le=10_000_000)
    """Of the generated catalogue."""
    catalogue_seed: int = Field(default=0, ge=0, lt=2**63)
    """Of the generated catalogue; not the run's seed, so that runs share their tasks."""
    goals: GoalSource = "synthetic"
    """synthetic: every combination of options of a product with an instruction; human: written instructions."""
    compat: Compat = "fixed"
    """original: WebShop's rewards and pages with their traps; fixed: without."""
    observation: ObservationMode = "brief"
    """text, text_rich and html as in WebShop; brief: what the embedded policy reads."""
    results_per_page: int = Field(default=4, ge=1, le=50)
    """Products on a page of results; WebShop's 10."""
    prompt: Prompt = "brief"
    """brief: a plain conversation; action, think: the task, the last steps and the admissible actions in one message."""
    history: int = Field(default=2, ge=0, le=1000)
    """Earlier steps shown in the prompt (action and think; brief shows all)."""
    max_turns: int = Field(default=15, ge=1, le=1000)
    """Replies per episode."""
    max_new_tokens: int = Field(default=40, ge=1, le=1_000_000)
    """Tokens per reply."""
    server: str | None = None
    """URL of a ``bench serve webshop`` with the same catalogue; by default the shop runs in process."""


class WebShopSuite:
    """Buying what an instruction asks for in a shop of 1,000 generated products, or in WebShop's own."""

    name: ClassVar[str] = "webshop"
    Settings: ClassVar[type] = WebShopSettings

    def __init__(self, settings: WebShopSettings) -> None:
        self.settings = settings
        self._is_open = False

    @staticmethod
    def probes() -> list[Probe]:
        """For ``bench doctor``."""
        try:
            catalogue = open_catalogue(GENERATED, 1000, 0)
            found = catalogue.search("usb cables")
        except (RequestError, InfrastructureError) as error:
            return [Probe("webshop", False, str(error))]
        return [Probe("webshop", bool(found), f"{len(catalogue)} generated products, search answers")]

    @cached_property
    def catalogue(self) -> Catalogue:
        """Opened when it is first asked for."""
        s = self.settings
        return open_catalogue(s.catalogue, s.products, s.catalogue_seed)

    @property
    def session_settings(self) -> SessionSettings:
        s = self.settings
        return SessionSettings(s.observation, s.compat, per_page=s.results_per_page)

    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def tasks(self, split: str) -> Sequence[Task]:
        return self._list(split)

    def _list(self, split: str) -> TaskList:
        return TaskList(self.catalogue, split, self.settings.goals, self.settings.compat)

    def manifest(self) -> Mapping[str, Any]:
        """The catalogue's hash covers every goal and product; with source and mode it covers every task of every split."""
        s = self.settings
        content = self.catalogue.sha256()
        covered = f"{content}/{s.goals}/{s.compat}"
        return {
            "name": self.name,
            "sha256": hashlib.sha256(covered.encode()).hexdigest(),
            "catalogue_sha256": content,
            "products": len(self.catalogue),
            "goals": s.goals,
            "compat": s.compat,
            "tagger": self.catalogue.facts["tagger"],
            "price_seed": self.catalogue.facts["seed"],
            "sizes": {split: len(self.tasks(split)) for split in SPLITS},
        }

    def agent(self) -> Agent:
        s = self.settings
        return webshop_agent(s.prompt, s.history, s.max_turns, s.max_new_tokens)

    def policy_dir(self) -> Path:
        return Path(__file__).parent / "policy"

    async def open(self, concurrency: int) -> None:
        s = self.settings
        catalogue = self.catalogue
        if s.server is not None:
            expected = {
                "catalogue_sha256": catalogue.sha256(),
                "goals": s.goals,
                "compat": s.compat,
                "results_per_page": s.results_per_page,
            }
            await asyncio.to_thread(check_server, s.server, expected)
        self._is_open = True

    def environment(self) -> Environment:
        if not self._is_open:
            raise InfrastructureError("the webshop suite is not open in this process")
        if self.settings.server is not None:
            return WebShopClientEnvironment(self.settings.server, self.session_settings)
        return WebShopEnvironment(self.catalogue, self.session_settings)

    async def close(self) -> None:
        self._is_open = False

    def vocabulary(self) -> tuple[list[str], list[str]]:
        """``(content words, markers)``: what the embedded policy's tokenizer keeps whole."""
        from tasks.webshop.vocabulary import MARKERS, content_words

        return content_words(), list(MARKERS)

    def demonstration_tasks(self, count: int) -> list[Task]:
        """Tasks of the training split, again and again under ids of their own."""
        tasks = self._list("train")
        return [tasks.repeated(i) for i in range(count)]

    def demonstration(self, task: Task, skill: str, seed: int) -> list[str]:
        """``expert`` buys what the goal asks for, as far as the first pages have it. ``flawed`` searches with fewer words, takes
        what comes first and mostly leaves out the options."""
        from tasks.webshop.demonstration import expert, flawed

        if not isinstance(task, WebShopTask) or skill not in ("expert", "flawed"):
            raise RequestError(
                f"webshop suite: no {skill} demonstration of {task.task_id}; accepted: expert or flawed, of a WebShop task"
            )
        if skill == "expert":
            return expert(self.catalogue, task, self.session_settings)
        return flawed(self.catalogue, task, self.session_settings, seed)
