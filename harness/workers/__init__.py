"""Where members are evaluated: one :class:`~harness.workers.evaluator.Evaluator` per worker, behind processes or actors."""
