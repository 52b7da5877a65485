"""Generated terminal tasks: families of sub-tasks, chained by difficulty, deterministic from (seed, split, index).

``families_*.py`` hold the families by what they are about; ``generate.py`` chains them; ``manifest.py`` freezes the lists.
"""
