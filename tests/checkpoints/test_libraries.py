"""States of real libraries, in the Python of Debian's packages: a training that is interrupted ends bit by bit as one
that is not. Skipped where they are not installed: `apt-get install python3-sklearn python3-torch`."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.process

DEBIAN = Path("/usr/bin/python3")

_BOTH = """
import sys, tempfile
from pathlib import Path
from ebbtide.jobs import checkpoint
from ebbtide.jobs.checkpoints import Codec
class Interrupted(Exception): pass
def both(train):
    whole = train(tempfile.mkdtemp(), None)
    store = tempfile.mkdtemp()
    for stop in (3, 7):
        try: train(store, stop)
        except Interrupted: pass
        else: sys.exit("it was not interrupted")
    print(whole == train(store, None), len(whole))
"""

NUMPY = """
import numpy
def write(state, path):
    with path.open("wb") as file: numpy.savez(file, **state)
def read(path):
    with numpy.load(path, allow_pickle=False) as file: return dict(file)
def train(store, stop):
    with checkpoint(store, job="a", every=0, codec=Codec("numpy", write, read)) as saved:
        state = saved.load(default={"epoch": numpy.array(0), "weights": numpy.zeros(64)})
        for epoch in range(int(state["epoch"]), 12):
            if epoch == stop: raise Interrupted
            noise = numpy.random.default_rng(epoch).normal(size=64)
            state = {"epoch": numpy.array(epoch + 1), "weights": numpy.tanh(0.9 * state["weights"] + noise)}
            saved.offer(state)
        return state["weights"].tobytes()
both(train)
"""

SKLEARN = """
import numpy
from sklearn.linear_model import SGDClassifier
def train(store, stop):
    model = SGDClassifier(random_state=0, learning_rate="constant", eta0=0.01)
    data = numpy.random.default_rng(0)
    inputs, classes = data.normal(size=(200, 8)), data.integers(0, 2, 200)
    model.partial_fit(inputs, classes, classes=[0, 1])
    with checkpoint(store, job="a", every=0) as saved:
        state = saved.load(default=None)
        if state:
            model.coef_, model.intercept_ = numpy.array(state["coef"]), numpy.array(state["intercept"])
            model.t_ = state["t"]
        for epoch in range(state["epoch"] if state else 0, 12):
            if epoch == stop: raise Interrupted
            model.random_state = epoch
            model.partial_fit(inputs, classes)
            saved.offer({"epoch": epoch + 1, "coef": model.coef_.tolist(), "intercept": model.intercept_.tolist(),
                         "t": model.t_})
    return model.coef_.tobytes()
both(train)
"""

TORCH = """
import torch
from ebbtide.jobs.checkpoints.pytorch import state_dicts
def train(store, stop):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters())
    with checkpoint(store, job="a", every=0, codec=state_dicts(weights_only=torch.__version__ >= "2")) as saved:
        state = saved.load(default={"epoch": 0})
        if state["epoch"]:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            torch.set_rng_state(state["random"])
        for epoch in range(state["epoch"], 12):
            if epoch == stop: raise Interrupted
            optimizer.zero_grad()
            model(torch.randn(32, 8)).square().mean().backward()
            optimizer.step()
            saved.offer({"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                         "random": torch.get_rng_state()})
    return b"".join(value.numpy().tobytes() for value in model.state_dict().values())
both(train)
"""


@pytest.mark.parametrize(
    ("module", "code"), [("numpy", NUMPY), ("sklearn", SKLEARN), ("torch", TORCH)], ids=["numpy", "sklearn", "torch"]
)
def test_an_interrupted_training_ends_as_one_that_is_not(module: str, code: str) -> None:
    if run(f"import {module}").returncode:
        pytest.skip(f"needs Debian's python3-{module}")

    done = run(_BOTH + code)

    assert done.returncode == 0, done.stderr
    same, size = done.stdout.split()
    assert same == "True"
    assert int(size) > 0


def run(code: str) -> "subprocess.CompletedProcess[str]":
    if not DEBIAN.exists():
        pytest.skip(f"needs {DEBIAN}")
    environment = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    return subprocess.run([DEBIAN, "-c", code], env=environment, capture_output=True, text=True, check=False)
