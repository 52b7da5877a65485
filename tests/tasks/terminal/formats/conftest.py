import pytest

from harness.errors import InfrastructureError
from tasks.terminal.formats.layers import LayerCache
from tasks.terminal.formats.machine import Machines


@pytest.fixture(scope="session")
def backend():
    from tasks.terminal.sandbox.bubblewrap import BubblewrapBackend

    try:
        backend = BubblewrapBackend()
    except InfrastructureError as error:
        pytest.skip(str(error))
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def machines(backend, tmp_path_factory):
    return Machines(backend, LayerCache(tmp_path_factory.mktemp("layers")))
