"""The WebShop environment in process: an episode is a session of its own, which is dropped with it."""

from __future__ import annotations

from harness.errors import EnvironmentFault, InfrastructureError
from harness.interfaces import Action, Observation, StepResult, Task
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.session import Outcome, ParsedAction, Session, SessionSettings
from tasks.webshop.task import WebShopTask


class WebShopEnvironment:
    """``catalogue`` is the one that the tasks are of."""

    def __init__(self, catalogue: Catalogue, settings: SessionSettings) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._session: Session | None = None

    async def reset(self, task: Task, seed: int) -> Observation:
        """Open a session for the task's goal. Raises EnvironmentFault for a task of another suite or mode."""
        if not isinstance(task, WebShopTask) or task.compat != self._settings.compat:
            raise EnvironmentFault(
                f"task {task.task_id}: not a WebShop task of compat {self._settings.compat}"
            )
        self._session = Session(self._catalogue, task.goal, self._settings, str(task.goal.index), seed)
        return self._observe(self._session)

    @staticmethod
    def _observe(session: Session) -> Observation:
        return Observation(session.observation(), session.admissible())

    async def step(self, action: Action) -> StepResult:
        session = self._live()
        if action.kind in ("search", "click"):
            outcome = session.act(ParsedAction(action.kind, action.argument.lower() or None))
        else:
            outcome = Outcome(invalid="not an action; accepted: search[...] or click[...]")
        info: dict[str, object] = {"reason": outcome.invalid} if outcome.invalid else {}
        if outcome.done:
            info = {**info, **purchase_facts(session)}
        return StepResult(self._observe(session), outcome.reward, outcome.done, bool(outcome.invalid), info)

    async def truncate(self) -> StepResult:
        """Without a purchase there is no reward."""
        return StepResult(self._observe(self._live()), 0.0, True, info={"success": False})

    async def close(self) -> None:
        self._session = None

    def _live(self) -> Session:
        if self._session is None:
            raise InfrastructureError("this environment has no open session")
        return self._session


def purchase_facts(session: Session) -> dict[str, object]:
    """For the record: success is a reward of exactly 1."""
    bought = session.bought
    assert bought is not None
    return {
        "success": bought.total == 1.0,
        "asin": session.page.products[0].asin,
        "options": dict(session.page.view.options),
        "components": dict(bought.info),
    }
