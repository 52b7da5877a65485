import numpy as np
import pytest
import torch

from harness.errors import RequestError
from harness.interfaces import Member, UpdateTerm
from harness.policies import noise
from harness.policies.master import MasterWeights


def targets(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = {"b.weight": (40, 30), "a.weight": (40, 30), "c.bias": (7,)}
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_restore_is_bit_exact_after_many_members(dtype):
    live = targets(dtype)
    before = {name: tensor.clone() for name, tensor in live.items()}
    master = MasterWeights(live, run_seed=0)
    for i in range(30):
        master.write_member(Member(i, 0, i, 1 if i % 2 else -1), 0.05)
    assert not torch.equal(live["a.weight"], before["a.weight"])
    master.write_master()
    assert all(torch.equal(live[name], before[name]) for name in live)


def test_a_member_is_the_master_plus_sigma_sign_eps():
    live = targets()
    base = {name: tensor.clone().numpy().reshape(-1) for name, tensor in live.items()}
    MasterWeights(live, run_seed=4).write_member(Member(9, 2, 8, -1), 0.5)
    for name, tensor in live.items():
        eps = noise.normals(noise.noise_key(4, 8, name), tensor.numel())
        assert np.allclose(tensor.numpy().reshape(-1), base[name] - 0.5 * eps, rtol=0, atol=1e-6)


def test_an_update_equals_the_float64_reference_within_1e_6_relative():
    live = targets()
    base = {name: tensor.double().numpy().reshape(-1).copy() for name, tensor in live.items()}
    master = MasterWeights(live, run_seed=7)
    generator = np.random.default_rng(3)
    terms = [UpdateTerm(i // 2, 1 if i % 2 == 0 else -1, float(generator.normal()) / 32) for i in range(32)]
    master.update(terms, 0.02)
    for name, tensor in live.items():
        step = sum(
            0.02
            * t.sign
            * t.coefficient
            * noise.normals(noise.noise_key(7, t.noise_id, name), tensor.numel()).astype(float)
            for t in terms
        )
        wanted = base[name] + step
        got = tensor.double().numpy().reshape(-1)
        assert np.linalg.norm(got - wanted) <= 1e-6 * np.linalg.norm(wanted)
        assert np.linalg.norm((got - base[name]) - step) <= 1e-4 * np.linalg.norm(step)


def test_targets_of_bfloat16_are_the_cast_of_an_fp32_master():
    live = targets(torch.bfloat16)
    master = MasterWeights(live, run_seed=0)
    for _ in range(20):
        master.update([UpdateTerm(1, 1, 1e-4)], 1.0)
    state = master.state()
    assert all(torch.equal(live[name], state[name].to(torch.bfloat16)) for name in live)
    moved = state["a.weight"].double().reshape(-1).numpy()
    start = targets(torch.bfloat16)["a.weight"].double().reshape(-1).numpy()
    eps = noise.normals(noise.noise_key(0, 1, "a.weight"), moved.size)
    assert np.allclose(moved - start, 20e-4 * eps, rtol=0, atol=5e-6)


def test_saved_weights_come_back_with_the_same_hash(tmp_path):
    master = MasterWeights(targets(), run_seed=0)
    master.update([UpdateTerm(0, 1, 1.0)], 0.1)
    master.save(tmp_path / "final.safetensors")
    other = MasterWeights(targets(), run_seed=0)
    assert other.sha256() != master.sha256()
    other.load(tmp_path / "final.safetensors")
    assert other.sha256() == master.sha256()
    assert [path.name for path in tmp_path.iterdir()] == ["final.safetensors"]


def test_weights_of_another_model_are_refused_by_name(tmp_path):
    MasterWeights({"x": torch.zeros(3)}, run_seed=0).save(tmp_path / "w.safetensors")
    with pytest.raises(RequestError, match=r"w\.safetensors"):
        MasterWeights(targets(), run_seed=0).load(tmp_path / "w.safetensors")
