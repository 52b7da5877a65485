"""What the generated shop sells: sixteen kinds of products, each with its words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """``query`` is what its products are found under, ``nouns`` what they are called, ``groups`` their options by group name."""

    category: str
    query: str
    levels: str
    nouns: tuple[str, ...]
    attributes: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]


BRANDS = (
    *("Alborea", "Brenvik", "Cordello", "Dunmarle", "Elvista", "Fjordan", "Galmont", "Hestia"),
    *("Ilvano", "Jarnow", "Kestrelo", "Lumarin", "Montave", "Norvill", "Oakmere", "Pavonne"),
)
STYLES = (
    "Simple",
    "Sturdy",
    "Graceful",
    "Compact",
    "Everyday",
    "Deluxe",
    "Rustic",
    "Bright",
    "Original",
    "Handy",
)
PURPOSES = ("for Home", "for Travel", "for Gifts", "for Beginners", "for Families")
COLOURS = (
    *("black", "white", "navy", "sky blue", "dark green", "olive", "burgundy", "coral", "mustard", "lilac"),
    *("charcoal", "silver", "beige", "walnut", "teal", "crème", "black/white", "rose gold"),
)
CLOTHES_SIZES = ("small", "medium", "large", "x-large", "xx-large")
SHOE_SIZES = ("us 6", "us 6.5", "us 7", "us 8", "us 8.5", "us 9", "us 10", "us 11")
LENGTHS = ("3 feet", "6 feet", "10 feet", "15 feet")
PACKS = ("pack of 1", "pack of 2", "pack of 4", "pack of 6")
FLAVOURS = ("lemon ginger", "wild berry", "orange zest", "vanilla", "salted caramel", "apple cinnamon")

KINDS = (
    Kind(
        "beauty",
        "face creams",
        "Beauty & Personal Care › Skin Care › Face › Creams",
        ("Face Cream", "Day Cream", "Night Balm"),
        (
            "fragrance free",
            "oil free",
            "cruelty free",
            "long lasting",
            "sensitive skin",
            "dry skin",
            "green tea",
        ),
        {"Scent": ("unscented", "rose water", "aloe", "cucumber"), "Size": ("1 ounce", "2 ounce", "4 ounce")},
    ),
    Kind(
        "beauty",
        "hair brushes",
        "Beauty & Personal Care › Hair Care › Styling Tools › Brushes",
        ("Hair Brush", "Paddle Brush", "Comb Set"),
        ("anti static", "heat resistant", "easy clean", "natural bristle", "damaged hair", "thick hair"),
        {"Color": COLOURS},
    ),
    Kind(
        "beauty",
        "nail polish",
        "Beauty & Personal Care › Foot, Hand & Nail Care › Nail Polish",
        ("Nail Polish", "Gel Polish", "Nail Lacquer"),
        ("quick drying", "non toxic", "high gloss", "chip resistant", "vegan formula"),
        {"Color": COLOURS, "Size": PACKS},
    ),
    Kind(
        "electronics",
        "usb cables",
        "Electronics › Accessories & Supplies › Cords & Adapters › USB Cables",
        ("USB Cable", "Charging Cord", "Data Cable"),
        ("fast charging", "nylon braided", "high speed", "gold plated", "tangle free", "extra strong"),
        {"Color": COLOURS, "Length": LENGTHS},
    ),
    Kind(
        "electronics",
        "desk lamps",
        "Electronics › Home Office › Lighting › Desk Lamps",
        ("Desk Lamp", "Reading Light", "Table Lamp"),
        ("energy saving", "touch control", "eye caring", "usb port", "easy assemble", "wall mounted"),
        {"Color": COLOURS},
    ),
    Kind(
        "electronics",
        "headphones",
        "Electronics › Portable Audio › Headphones › Over Ear",
        ("Headphones", "Headset", "Earphones"),
        (
            "noise cancelling",
            "hands free",
            "water resistant",
            "stereo sound",
            "long battery",
            "carrying case",
        ),
        {"Color": COLOURS, "Style": ("corded", "wireless")},
    ),
    Kind(
        "electronics",
        "phone stands",
        "Electronics › Cell Phones › Accessories › Stands",
        ("Phone Stand", "Tablet Holder", "Desk Mount"),
        ("height adjustable", "non slip", "aluminum alloy", "easy carry", "foldable design"),
        {"Color": COLOURS, "Size": ("mini", "regular", "tall")},
    ),
    Kind(
        "garden",
        "throw blankets",
        "Home & Kitchen › Bedding › Blankets & Throws › Throws",
        ("Throw Blanket", "Bed Throw", "Fleece Blanket"),
        ("machine washable", "super soft", "double sided", "fade resistant", "queen size", "light weight"),
        {"Color": COLOURS, "Size": ('40" x 50"', '50" x 60"', '60" x 80"')},
    ),
    Kind(
        "garden",
        "storage baskets",
        "Home & Kitchen › Storage & Organization › Baskets & Bins",
        ("Storage Basket", "Woven Bin", "Laundry Hamper"),
        ("space saving", "with handles", "eco friendly", "living room", "hand woven"),
        {"Color": COLOURS, "Size": ("small", "medium", "large")},
    ),
    Kind(
        "garden",
        "bookcases",
        "Home & Kitchen › Furniture › Living Room Furniture › Bookcases",
        ("Bookcase", "Book Shelf", "Corner Shelf"),
        ("solid wood", "steel frame", "open shelves", "easy install", "heavy duty", "dining room"),
        {"Color": COLOURS, "Style": ("3 tier", "4 tier", "5 tier")},
    ),
    Kind(
        "garden",
        "wall clocks",
        "Home & Kitchen › Home Décor › Clocks › Wall Clocks",
        ("Wall Clock", "Kitchen Clock"),
        ("battery operated", "silent movement", "easy read", "glass cover", "vintage look"),
        {"Color": COLOURS, "Size": ("8 inch", "10 inch", "12 inch")},
    ),
    Kind(
        "fashion",
        "men's jackets",
        "Clothing, Shoes & Jewelry › Men › Clothing › Jackets & Coats",
        ("Jacket", "Windbreaker", "Parka"),
        ("quick dry", "zipper closure", "wind proof", "machine wash", "regular fit", "fleece lined"),
        {"Color": COLOURS, "Size": CLOTHES_SIZES},
    ),
    Kind(
        "fashion",
        "women's dresses",
        "Clothing, Shoes & Jewelry › Women › Clothing › Dresses",
        ("Dress", "Sundress", "Maxi Dress"),
        ("short sleeve", "hand wash", "elastic waist", "loose fit", "button closure", "polyester cotton"),
        {"Color": COLOURS, "Size": CLOTHES_SIZES},
    ),
    Kind(
        "fashion",
        "walking shoes",
        "Clothing, Shoes & Jewelry › Shoes › Athletic › Walking",
        ("Walking Shoes", "Trainers", "Slip On Shoes"),
        ("rubber sole", "arch support", "memory foam", "breathable mesh", "wide toe", "shock absorbing"),
        {"Color": COLOURS, "Size": SHOE_SIZES},
    ),
    Kind(
        "grocery",
        "herbal teas",
        "Grocery & Gourmet Food › Beverages › Tea › Herbal",
        ("Herbal Tea", "Tea Bags", "Loose Tea"),
        ("caffeine free", "certified organic", "sugar free", "non gmo", "kosher certified"),
        {"Flavor Name": FLAVOURS, "Size": PACKS},
    ),
    Kind(
        "grocery",
        "energy bars",
        "Grocery & Gourmet Food › Snack Foods › Bars › Energy & Nutritional",
        ("Energy Bar", "Oat Bar", "Nut Bar"),
        ("gluten free", "dairy free", "high protein", "low sugar", "plant based", "keto friendly"),
        {"Flavor Name": FLAVOURS, "Size": PACKS},
    ),
)
