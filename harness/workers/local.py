"""Workers as processes of this machine: one torch thread each, started from a fork server that has imported torch once.

A worker that dies is started again, brought to the newest version by the updates kept here, and given its job once more; a job
that has cost ``ATTEMPTS`` workers comes back with an error. A worker whose parent dies ends itself at once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerContext
from typing import Any

from harness.config import Experiment
from harness.errors import BenchError, InfrastructureError
from harness.workers.evaluator import Update, WeightsFile

ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Completed:
    """A job that ended: ``result``, or ``error`` where the infrastructure failed for good."""

    job: Any
    result: Any
    error: str | None
    worker: int


@dataclass
class _Worker:
    process: Any
    pipe: connection.Connection
    ready: bool = False
    job: Any = None
    attempts: int = 0
    sent: int = 0
    failures: int = field(default=0)


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_fork_server() -> ForkServerContext:
    """Start the process from which workers are forked, if it does not run yet; it imports what they need meanwhile, so a caller
    with other things to load calls this first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.workers.preload"])
    forkserver.ensure_running()
    return context


class LocalWorkers:
    """A pool of worker processes. Not thread-safe. Use as a context manager."""

    def __init__(self, experiment: Experiment, updates: Sequence[Update | WeightsFile] = ()) -> None:
        self.experiment = experiment
        self.count = experiment.workers.count or available_cores()
        self._updates = list(updates)
        self._context = start_fork_server()
        self._workers: list[_Worker] = []
        self._again: deque[tuple[Any, int]] = deque()
        self._given_up: list[Completed] = []

    def __enter__(self) -> LocalWorkers:
        try:
            self._workers = [self._start() for _ in range(self.count)]
        except OSError as error:
            raise InfrastructureError(f"a worker process cannot be started: {error}") from error
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._workers:
            try:
                worker.pipe.send(("stop",))
            except OSError:
                continue
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        self._workers = []

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_main, args=(theirs, self.experiment), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._send_updates(worker)
        return worker

    def _send_updates(self, worker: _Worker) -> None:
        for update in self._updates[worker.sent :]:
            worker.pipe.send(("update", update))
        worker.sent = len(self._updates)

    def wait_until_ready(self) -> None:
        """Block until every worker has loaded its model and opened its suite. Raises what stopped one of them."""
        while not all(worker.ready for worker in self._workers):
            pipes = {worker.pipe: index for index, worker in enumerate(self._workers) if not worker.ready}
            for pipe in connection.wait(list(pipes)):
                self._receive(pipes[pipe])  # type: ignore[index]

    def publish(self, update: Update | WeightsFile) -> None:
        """Tell every worker of a new version."""
        self._updates.append(update)
        for index, worker in enumerate(self._workers):
            try:
                self._send_updates(worker)
            except OSError:
                self._lost(index)

    @property
    def idle(self) -> int:
        """Workers that have no job (their start-up may still go on: a job then waits for it)."""
        return max(0, sum(worker.job is None for worker in self._workers) - len(self._again))

    @property
    def busy(self) -> int:
        return sum(worker.job is not None for worker in self._workers) + len(self._again)

    def submit(self, job: Any) -> int:
        """Give a job to an idle worker; returns the worker's number."""
        return self._give(job, 1)

    def _give(self, job: Any, attempts: int) -> int:
        index = next(i for i, worker in enumerate(self._workers) if worker.job is None)
        worker = self._workers[index]
        worker.job, worker.attempts = job, attempts
        try:
            worker.pipe.send(("job", job))
        except OSError:
            self._lost(index)
        return index

    def wait(self, timeout_s: float | None = None) -> list[Completed]:
        """Block until at least one job ended (or ``timeout_s`` passed); the jobs that ended, in the order of workers."""
        completed: list[Completed] = []
        while not completed:
            completed, self._given_up = self._given_up, []
            if completed or self.busy == 0:
                return completed
            while self._again and any(worker.job is None for worker in self._workers):
                self._give(*self._again.popleft())
            pipes = {worker.pipe: index for index, worker in enumerate(self._workers)}
            readable = connection.wait(list(pipes), timeout_s)
            if not readable:
                return []
            for index in sorted(pipes[pipe] for pipe in readable):  # type: ignore[index]
                done = self._receive(index)
                if done is not None:
                    completed.append(done)
        return completed

    def _receive(self, index: int) -> Completed | None:
        worker = self._workers[index]
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._lost(index)
            return None
        if message[0] == "ready":
            worker.ready = True
            return None
        if message[0] == "fatal":
            raise message[1]
        job, worker.job = worker.job, None
        if message[0] == "failed":
            return Completed(job, None, message[1], index)
        return Completed(job, message[1], None, index)

    def _lost(self, index: int) -> None:
        worker = self._workers[index]
        worker.pipe.close()
        worker.process.join(timeout=5)
        code = worker.process.exitcode
        failures = worker.failures + (0 if worker.ready else 1)
        if failures >= ATTEMPTS:
            raise InfrastructureError(
                f"worker {index} ended {failures} times while starting (exit status {code})"
            )
        self._workers[index] = self._start()
        self._workers[index].failures = failures
        if worker.job is None:
            return
        if worker.attempts >= ATTEMPTS:
            error = f"{ATTEMPTS} workers died on it (exit status {code})"
            self._given_up.append(Completed(worker.job, None, error, index))
        else:
            self._again.append((worker.job, worker.attempts + 1))


# --------------------------------------------------------------------------------------------- in the worker process


def _main(pipe: connection.Connection, experiment: Experiment) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with_parent, args=(parent.sentinel,), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    asyncio.run(_serve(pipe, experiment))


def _end_with_parent(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


async def _serve(pipe: connection.Connection, experiment: Experiment) -> None:
    from harness import registry
    from harness.workers.evaluator import Evaluator

    try:
        suite = registry.suite_class(experiment.suite_name)(experiment.suite)
        evaluator = Evaluator(experiment, suite)
        await evaluator.open()
    except BenchError as error:
        pipe.send(("fatal", error))
        return
    pipe.send(("ready",))
    loop = asyncio.get_running_loop()
    try:
        while True:
            message = await _next(loop, pipe)
            if message[0] == "stop":
                return
            if message[0] == "update":
                evaluator.updates.append(message[1])
                continue
            try:
                result = await evaluator.run(message[1])
            except InfrastructureError as error:
                pipe.send(("failed", str(error)))
            except BenchError as error:
                pipe.send(("fatal", error))
                return
            else:
                pipe.send(("done", result))
    finally:
        await evaluator.close()


async def _next(loop: asyncio.AbstractEventLoop, pipe: connection.Connection) -> Any:
    """The next message; the loop stays free to start sandboxes ahead while it waits."""
    if not pipe.poll():
        arrived = asyncio.Event()
        loop.add_reader(pipe.fileno(), arrived.set)
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(pipe.fileno())
    return pipe.recv()
