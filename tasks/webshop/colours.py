"""The colour words of the reward, and what they make of an option value."""

from __future__ import annotations

_WORDS = """alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
    caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal dark
    denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki
    lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard
    natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire seashell silver
    skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow"""
COLOURS = tuple(_WORDS.split())
"""In the alphabetical order in which they are tried."""


def normalize_colour(value: str) -> str:
    """The first colour word that is a substring of ``value`` (case counts), else ``value``."""
    return next((colour for colour in COLOURS if colour in value), value)
