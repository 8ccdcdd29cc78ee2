"""The shipped controller, or the closer, with a faster clock.

`python -m control_plane.night.controller --start ISO --speed N --began MONOTONIC [--closer] -- ARGUMENTS`, where the
arguments are those of `python -m controllers` or `python -m controllers.closer`.

Only the clock of decisions and the wait between two turns are scaled. The Lease, the comparison of clocks (its own and
the servers', all real) and everything on the network stay in real time.
"""

import argparse
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path

from control_plane.night.scaled import ScaledClock
from controllers import closer
from controllers.adapters.clock import EventWaker
from controllers.adapters.kube_api import KubeApi, NoCluster, from_kubeconfig
from controllers.adapters.server import Server
from controllers.process import ConfigFile
from controllers.scaler.main import ScalerProcess, read
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load


class ScaledWaker(EventWaker):
    """Waits in scaled time."""

    def __init__(self, clock: ScaledClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: timedelta) -> bool:
        return super().wait(timedelta(seconds=self._clock.real(timeout.total_seconds())))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scaled_controller", description="The controller in faster time.")
    parser.add_argument("--start", required=True, type=datetime.fromisoformat, help="what its clock shows at the start")
    parser.add_argument("--speed", required=True, type=float, help="seconds of its clock in one of ours")
    parser.add_argument("--began", required=True, type=float, help="the start, in seconds of the monotonic clock")
    parser.add_argument("--closer", action="store_true", help="close the budgets, and end")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE")
    parser.add_argument("--kubeconfig", required=True, metavar="FILE")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="ADDRESS:PORT")
    options = parser.parse_args([argument for argument in arguments if argument != "--"])
    try:
        clock = ScaledClock(options.start, options.speed, options.began)
        if options.closer:
            return close(clock, options.config, options.kubeconfig)
        run(clock, options)
    except (NoCluster, ValueError, OSError, OverflowError) as error:
        print(f"scaled_controller: {error}", file=sys.stderr)
        return 2
    return 0


def run(clock: ScaledClock, options: argparse.Namespace) -> None:
    """Run as `controllers.scaler.main.main` does, until a signal."""
    process = ScalerProcess(ConfigFile(options.config, read), options.kubeconfig)
    process.clock, process.waker = clock, ScaledWaker(clock)
    host, _, port = options.listen.rpartition(":")
    Server(host, int(port), process.pages)
    signal.signal(signal.SIGTERM, process.stop)
    signal.signal(signal.SIGINT, process.stop)
    process.run()


def close(clock: ScaledClock, file: Path, kubeconfig: str) -> int:
    """Close as `controllers.closer.main` does, without the API server's clock, which shows the real time."""
    config = load(ControllerConfig, file.read_text(encoding="utf-8"))
    api = KubeApi(from_kubeconfig(kubeconfig))
    outcomes = [closer.close(budget, config, api, [clock.now()]) for budget in config.budgets + config.never_opened]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
