"""A stack's strategies over one trace: `replay` is the way in, `ebbtide.simulator.results.Replay` the way out."""

from ebbtide.simulator.replay.run import replay
from ebbtide.simulator.setup import ReplayError, ReplayOptions

__all__ = ["ReplayError", "ReplayOptions", "replay"]
