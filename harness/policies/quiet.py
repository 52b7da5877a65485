"""What transformers prints by itself and what of it is worth seeing next to a progress line of ours."""

from __future__ import annotations


def quiet_transformers() -> None:
    """No bar for reading or writing weights, which for every worker would run across the display; downloads keep theirs."""
    from huggingface_hub.utils import enable_progress_bars
    from transformers.utils import logging

    logging.disable_progress_bar()
    enable_progress_bars()
