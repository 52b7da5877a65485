"""fp32 master weights: members are cast from them by copy, updates are added to them, nothing is ever subtracted back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from harness.errors import RequestError
from harness.interfaces import Member, UpdateTerm
from harness.policies import noise


class MasterWeights:
    """The weights ``theta_v`` of a run, by canonical (Hugging Face) parameter name, each flat and fp32.

    ``targets`` are the live tensors of an engine, of any floating dtype; tied weights must appear once. The master starts as
    a copy of them. Invariant: ``targets`` is always the cast of either the master or one member.
    """

    def __init__(self, targets: Mapping[str, torch.Tensor], run_seed: int) -> None:
        self.run_seed = run_seed
        self._targets = {name: targets[name] for name in sorted(targets)}
        self._master = {
            name: tensor.detach().to(torch.float32).cpu().reshape(-1).numpy().copy()
            for name, tensor in self._targets.items()
        }
        self._scratch = np.empty(max(array.size for array in self._master.values()), np.float32)

    @property
    def parameter_count(self) -> int:
        return sum(array.size for array in self._master.values())

    def _write(self, name: str, values: noise.Float32) -> None:
        target = self._targets[name]
        with torch.no_grad():
            target.copy_(torch.from_numpy(values).view(target.shape))

    def write_member(self, member: Member, sigma: float) -> None:
        """targets = cast(master + sigma * sign * eps(noise_id))."""
        for name, master in self._master.items():
            key = noise.noise_key(self.run_seed, member.noise_id, name)
            scratch = self._scratch[: master.size]
            noise.perturb(key, sigma * member.sign, master, scratch)
            self._write(name, scratch)

    def write_master(self) -> None:
        """targets = cast(master): bit-exact, whatever was written before."""
        for name, master in self._master.items():
            self._write(name, master)

    def update(self, terms: Sequence[UpdateTerm], alpha: float) -> None:
        """master += alpha * sum_i coefficient_i * sign_i * eps(noise_id_i), in fp32, in the order given; targets follow.

        Coefficients already contain the ``1 / N`` of the mean over the cohort. Terms that share a noise id (antithetic
        partners) are merged first: their noise is made once.
        """
        merged: dict[int, float] = {}
        for term in terms:
            merged[term.noise_id] = merged.get(term.noise_id, 0.0) + term.sign * term.coefficient
        scales = [alpha * value for value in merged.values()]
        for name, master in self._master.items():
            noise.accumulate([noise.noise_key(self.run_seed, i, name) for i in merged], scales, master)
        self.write_master()

    def sha256(self) -> str:
        """Hash of names, shapes and fp32 bytes."""
        digest = hashlib.sha256()
        for name, master in self._master.items():
            digest.update(f"{name}:{tuple(self._targets[name].shape)};".encode())
            digest.update(master.tobytes())
        return digest.hexdigest()

    def state(self) -> dict[str, torch.Tensor]:
        """fp32 copies, by name, in their shapes."""
        return {
            name: torch.from_numpy(master.copy()).view(self._targets[name].shape)
            for name, master in self._master.items()
        }

    def save(self, path: Path) -> None:
        """Write the fp32 master as safetensors, whole or not at all."""
        temporary = path.with_name(path.name + ".part")
        save_file(self.state(), str(temporary))
        temporary.replace(path)

    def load(self, path: Path) -> None:
        """Take the master from a file that :meth:`save` wrote. Raises RequestError where names or shapes differ."""
        state = load_file(str(path))
        if sorted(state) != sorted(self._master):
            raise RequestError(
                f"{path}: the parameter names are not this model's; accepted: weights of the same model"
            )
        for name, tensor in state.items():
            if tensor.shape != self._targets[name].shape:
                raise RequestError(
                    f"{path}: {name} has shape {tuple(tensor.shape)}; accepted: {tuple(self._targets[name].shape)}"
                )
            self._master[name][:] = tensor.to(torch.float32).reshape(-1).numpy()
        self.write_master()
