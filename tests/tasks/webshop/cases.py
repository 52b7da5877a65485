"""The measured cases: from WEBSHOP_CASES where it is set, else from this repository."""

import json
import os
from pathlib import Path

OWN = Path(__file__).parents[2] / "cases" / "webshop"
FOLDER = Path(os.environ.get("WEBSHOP_CASES") or OWN)
CATALOGUE = FOLDER / "catalogue"


def lines(name):
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def document(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))
