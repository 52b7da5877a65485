"""The machine that every experiment shares: interfaces, rollouts, policies, schedules, the event log, scoring, reports.

Nothing in here imports ``tasks`` or ``baselines``; they come in through the entry-point groups
``bench.suites`` and ``bench.methods``, as a third-party package's would.
"""
