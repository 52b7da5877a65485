"""Noise against torch.randn, one core, in one run."""

import time

import numpy as np
import pytest
import torch

from harness.policies import noise

COUNT = 8_000_000


def best_of(action, times=5):
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return COUNT / min(seconds) / 1e6


@pytest.mark.benchmark
def test_noise_against_torch_randn(capsys):
    torch.set_num_threads(1)
    master, out, tensor = np.zeros(COUNT, np.float32), np.empty(COUNT, np.float32), torch.empty(COUNT)
    noise.normals(1, 10)
    noise.perturb(1, 0.1, master[:10], out[:10])
    noise.accumulate([1], [1.0], out[:10])
    reference = best_of(tensor.normal_)
    rows = [
        ("torch.Tensor.normal_", reference),
        ("noise.normals", best_of(lambda: noise.normals(1, COUNT))),
        ("noise.perturb (master + sigma * eps)", best_of(lambda: noise.perturb(1, 0.1, master, out))),
        ("noise.accumulate (one member)", best_of(lambda: noise.accumulate([1], [0.1], out))),
    ]
    with capsys.disabled():
        print("\nnoise, millions of normals a second on one core")
        for name, speed in rows:
            print(f"  {name:38s} {speed:7.0f}   {speed / reference:5.2f} x torch")
