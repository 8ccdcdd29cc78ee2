"""PyTorch's state dicts: `checkpoint(store, codec=state_dicts())`, and offer `{"model": model.state_dict(), …}`."""

# PyTorch is installed in the customer's image, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from pathlib import Path
from typing import Any

import torch

from ebbtide.jobs.checkpoints.codecs import Codec


def state_dicts(onto: str = "cpu", *, weights_only: bool = True) -> Codec:
    """Return a codec that loads only tensors and plain values, never code. `onto`: the device of loaded tensors.

    PyTorch before 2.0 cannot load an optimizer's numbers this way. It needs `weights_only=False`, and a store that no
    one else can write to.
    """

    def load(path: Path) -> Any:
        return torch.load(path, map_location=onto, weights_only=weights_only)

    def dump(state: Any, path: Path) -> None:
        torch.save(state, path)

    return Codec("torch", dump, load)
