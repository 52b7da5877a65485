import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.policies import noise


def philox_4x32_10(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """The published algorithm in plain integers, independent of the code under test."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def reference_element(key: int, index: int) -> float:
    """Element ``index`` in double precision, from the definition in the module's docstring."""
    counter = index // 1024 * 256 + index % 256
    words = philox_4x32_10((counter & 0xFFFFFFFF, counter >> 32, 0, 0), (key & 0xFFFFFFFF, key >> 32))
    which = index % 1024 // 256
    radius_bits, angle_bits = words[which // 2 * 2], words[which // 2 * 2 + 1]
    radius = math.sqrt(-2.0 * math.log((radius_bits // 2 + 0.25) / 2**31))
    angle = 2.0 * math.pi * angle_bits / 2**32
    return radius * (math.cos(angle) if which % 2 == 0 else math.sin(angle))


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_reference_generator_gives_the_published_known_answers(counter, key, expected):
    assert philox_4x32_10(counter, key) == expected


def test_golden_vector_of_seed_0_member_0():
    key = noise.noise_key(0, 0, "model.embed_tokens.weight")
    assert key == 14875703024046805070
    got = noise.normals(key, 4)
    assert [float(x).hex() for x in got] == GOLDEN


GOLDEN = ["-0x1.3641a20000000p+0", "0x1.3619ae0000000p-1", "0x1.c396360000000p-2", "-0x1.dd99d00000000p-2"]


@given(st.integers(0, 2**64 - 1), st.integers(0, 5000))
def test_every_element_is_the_defined_function_of_key_and_index(key, index):
    assert float(noise.normals(key, 1, start=index)[0]) == pytest.approx(
        reference_element(key, index), abs=2e-6
    )


def test_counters_beyond_32_bits_use_the_high_word():
    index = 5 * 2**34 + 77
    assert float(noise.normals(9, 1, start=index)[0]) == pytest.approx(reference_element(9, index), abs=2e-6)


@given(st.integers(0, 3000), st.integers(1, 3000))
def test_any_slice_equals_the_same_elements_of_the_whole(start, count):
    whole = noise.normals(5, start + count)
    assert np.array_equal(noise.normals(5, count, start=start), whole[start:])


def test_perturb_and_accumulate_use_the_same_elements_as_normals():
    master = np.linspace(-1, 1, 5000, dtype=np.float32)
    out = np.empty_like(master)
    noise.perturb(11, 0.25, master, out)
    assert np.array_equal(out, master + np.float32(0.25) * noise.normals(11, 5000))
    total = master.copy()
    noise.accumulate([11, 12], [0.5, -2.0], total)
    wanted = master.astype(np.float64) + 0.5 * noise.normals(11, 5000) - 2.0 * noise.normals(12, 5000)
    assert np.allclose(total, wanted, rtol=0, atol=1e-6)


def test_a_million_elements_are_standard_normal():
    from scipy import stats

    sample = noise.normals(noise.noise_key(3, 1, "w"), 1_000_000).astype(np.float64)
    assert stats.kstest(sample, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 5e-3
    assert np.isfinite(sample).all()


@pytest.mark.parametrize(
    "other",
    [
        (0, 0, "layers.1.weight"),
        (0, 1, "layers.0.weight"),
        (1, 0, "layers.0.weight"),
        (0, 10, "layers.0.weight"),
    ],
    ids=[
        "another parameter",
        "another member",
        "another run seed",
        "a member whose digits could run together",
    ],
)
def test_noise_of_parameters_members_and_runs_is_independent(other):
    mine = noise.normals(noise.noise_key(0, 0, "layers.0.weight"), 200_000)
    theirs = noise.normals(noise.noise_key(*other), 200_000)
    assert abs(np.corrcoef(mine, theirs)[0, 1]) < 5 / math.sqrt(200_000)
    assert not np.isin(theirs[:100], mine[:100]).any()


def test_run_seed_0_is_a_seed_of_its_own():
    assert len({noise.noise_key(seed, 0, "w") for seed in range(50)}) == 50
