"""Multi-turn shell tasks in sandboxes: the generated task families, the sandboxes, the environment and its agent."""
