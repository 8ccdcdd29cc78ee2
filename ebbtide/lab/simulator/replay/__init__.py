"""The strategies of a stack over one trace: `replay` returns a `Replay`."""

from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.setup import ReplayError, ReplayOptions

__all__ = ["ReplayError", "ReplayOptions", "replay"]
