"""The error model: every failure belongs to exactly one of four parties, and each is treated in its own way.

==================  ===============================  ==========================================================
who failed          exception                        what happens
==================  ===============================  ==========================================================
the request         :class:`RequestError`            one sentence, exit code 2, nothing written
the policy          (none: it is a result)           an unparsable reply is an invalid action: it costs a turn
the environment     :class:`EnvironmentFault`        a defect of the task or its code; the run stops, exit code 3
the infrastructure  :class:`InfrastructureError`     the episode is retried, then counted as missing data; it is
                                                     never a reward of 0
==================  ===============================  ==========================================================

A check that ran and said no (``bench audit``, ``bench replay``, ``bench check``) raises :class:`CheckFailed`: exit code 1.
"""

from __future__ import annotations

EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_BAD_REQUEST = 2
EXIT_INFRASTRUCTURE = 3


class BenchError(Exception):
    """Base of the errors that are reported as one sentence, without a traceback."""

    exit_code = EXIT_INFRASTRUCTURE


class RequestError(BenchError):
    """The request was wrong. The message names file, field and value, and says what would be accepted."""

    exit_code = EXIT_BAD_REQUEST


class CheckFailed(BenchError):
    """A check was carried out and its answer is no."""

    exit_code = EXIT_CHECK_FAILED


class InfrastructureError(BenchError):
    """A sandbox, an engine, a worker or the machine failed: missing data, retried, never a reward of 0."""


class EnvironmentFault(BenchError):
    """A task or its environment is defective; retrying would not help and its reward would mean nothing."""
