import pytest

from tasks.webshop.catalogue import Catalogue
from tasks.webshop.reading import read_products, read_table
from tests.tasks.webshop import cases


@pytest.fixture(scope="session")
def measured():
    """The catalogue over which the cases were measured."""
    return Catalogue.in_memory(
        read_products(str(cases.CATALOGUE / "items_shuffle_1000.json")),
        read_table(str(cases.CATALOGUE / "items_ins_v2_1000.json")),
        read_table(str(cases.CATALOGUE / "items_human_ins.json")),
    )
