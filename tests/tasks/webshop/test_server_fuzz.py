"""The API against its own OpenAPI document, by schemathesis."""

import pytest
from hypothesis import HealthCheck, settings

from tasks.webshop.catalogue import Catalogue
from tasks.webshop.generator.generate import products, tables
from tasks.webshop.server import create_app
from tasks.webshop.settings import ServerSettings

schemathesis = pytest.importorskip("schemathesis")

SHOP = Catalogue.in_memory(products(60, 0), *tables(60, 0))
HOSTS = ("localhost", "127.0.0.1", "testserver", "testclient")
schema = schemathesis.openapi.from_asgi(
    "/openapi.json",
    create_app(SHOP, ServerSettings(hosts=HOSTS, session_limit=200)),
    headers={"host": "localhost"},
)


@schema.parametrize()
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_answers_are_those_of_the_document(case):
    case.call_and_validate(headers={"host": "localhost"})
