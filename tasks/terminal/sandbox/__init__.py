"""Sandboxes: where an agent's commands really run. ``interface`` says what one offers, ``guest.pl`` is process 1 of each,
``channel`` speaks to it, ``bubblewrap`` starts it; ``pool`` keeps some ready and ``select`` chooses a backend that works."""
