"""The laws. Safety is judged as things happen, liveness once the faults are over.

*Held* means: the pod had the job before the controller last read the queues, so it had the chance to know. A job that
arrives between that reading and the pod's end is what the safe stop of workers is for; such cases are counted.
"""

from collections import Counter
from collections.abc import Callable

from controllers.ports import Scale, SetBudget
from controllers.scaler.workers.decision import Reason
from ebbtide.vocabulary.controller_config import PoolPolicy
from tests.harness.cluster import Deployment, Pod
from tests.harness.queues import Redis
from tests.harness.scenario import RESYNC, Scenario
from tests.harness.words import Violation, Write

ONE_PASS = RESYNC + 3.0  # a sweep, a second's retry, and the time that a write may take
WINDOW_LIMIT = 5.0
POP_WINDOW = 5.0
TWO_SWEEPS = 2 * RESYNC + 1.0
SLACK = 1e-3  # instants are rounded to microseconds on their way through a datetime
MARK_UNSEEN = 0.5  # seconds that a cache may be behind without any fault
READ_SPREAD = 0.7  # a pass is dated before its reading, which may take this long


class Broken(BaseException):
    """A law was broken: the run ends here."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


class Checks:
    def __init__(self, scenario: Scenario, redis: Redis, now: Callable[[], float]) -> None:
        self._scenario = scenario
        self._redis = redis
        self._now = now
        self._calm = {pool.name: pool.stabilization_window.total_seconds() for pool in scenario.config.pools}
        self._policy = {pool.name: pool for pool in scenario.config.pools}
        self.checked: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.clock_jumped = 0.0  # by which wall time ran ahead of true time, unnoticed
        self.looks: list[float] = []  # when a controller asked Redis, whether or not it got an answer

    def fail(self, law: str, what: str) -> None:
        raise Broken(Violation(self._now(), law, what))

    def policy_of(self, pool: str) -> PoolPolicy:
        return self._policy[pool]

    def hold(self, law: str, good: bool, what: str) -> None:
        self.checked[law] += 1
        if not good:
            self.fail(law, what)

    # --- safety: workers ------------------------------------------------------------------------------------------

    def lowering(self, pool: Deployment, write: Write) -> None:
        """A write that lowers has just landed."""
        action = write.action
        assert isinstance(action, Scale)
        text = f"{pool.name} {pool.replicas} to {action.replicas} by controller {write.author} ({action.reason})"
        unchanged = write.seen_version == str(pool.version)
        self.hold("a lowering lands only on an unchanged object", unchanged, f"{text}, decided on an older one")
        if action.reason == Reason.REFUSED:
            self.hold("a refused pool keeps every pod", action.replicas >= len(pool.live()), text)
        else:
            self.hold("a pool without a safe stop is not lowered", pool.safe_stop, text)
        busy = sum(1 for pod in pool.live() if self._held(pod, write))
        self.hold("never below busy", action.replicas >= busy, f"{text}, {busy} busy")
        if action.replicas == 0:
            self._zero(pool, write, text)
        self.counts["lowerings"] += 1

    def _zero(self, pool: Deployment, write: Write, text: str) -> None:
        queue = self._redis.queues[pool.name]
        calm = self._calm[pool.name] - self.clock_jumped - READ_SPREAD
        self.hold(
            "no pool to zero unless proven empty",
            queue.was_empty(write.read_at - calm, write.read_at, looks=self.looks),
            f"{text}: something was in flight in the {calm:.1f} s before the reading at {write.read_at:.3f}",
        )
        if not queue.was_empty(write.read_at - calm, write.read_at):
            self.counts["zeros soon after a job that no reading saw"] += 1
        hidden = [pod for pod, job in queue.hidden.items() if not job.unseeable and job.popped_at <= write.read_at]
        self.hold("no pool to zero while a lost job runs", not hidden, f"{text}: {hidden} run jobs that no key shows")
        self.counts["zeros reached"] += 1

    def _held(self, pod: Pod, write: Write) -> bool:
        return pod.job is not None and not pod.job.unseeable and pod.job.popped_at <= write.read_at

    def victim(self, pod: Pod, cause: Write | None) -> None:
        """The ReplicaSet has chosen a pod to go."""
        if cause is None:
            return
        self.counts["pods removed"] += 1
        reason = f"{pod.name} had its job since {pod.job.popped_at:.3f}, read at {cause.read_at:.3f}" if pod.job else ""
        # Of a late lowering the law is that it leaves room for the busy: its marks may have been taken back meanwhile.
        # And a mark that lands late, after the caches were read, is one that nobody could know of.
        # Nor could anybody know of a node that was told to be silent after the reading.
        excused = cause.late or pod.late_mark_at > cause.read_at - MARK_UNSEEN or pod.silent_since > cause.read_at
        self.hold("no busy pod is chosen", excused or not self._held(pod, cause), reason)
        if pod.job is not None:
            self.counts["left to the safe stop"] += 1

    # --- safety: budgets ------------------------------------------------------------------------------------------

    def asks(self, write: Write, turn_at: float, doubt: str, skew: float) -> None:
        """The controller is about to write; `turn_at` is the true time at which its pass began."""
        action = write.action
        if write.lowers:
            self.hold("nothing is lowered in doubt", not doubt, f"{action.reason}, although {doubt}")
        if not isinstance(action, SetBudget):
            return
        self.hold("a fixed budget is never written", action.budget != "ray-head", f"set to {action.max_unavailable}")
        if not action.max_unavailable:
            return
        margin = SLACK + (abs(skew) if not doubt else 0.0)
        good = any(self._scenario.in_window(turn_at + offset) for offset in (-margin, 0.0, margin))
        self.hold("opened in the window only", good, f"{action.budget} opened by controller {write.author}")
        self.hold("nothing is opened in doubt", not doubt, f"{action.budget} opened although {doubt}")

    def left_open(self, name: str, since: float) -> None:
        """Called while a budget is open outside the window and nothing excuses it since `since`."""
        self.hold(
            "closed within one pass",
            self._now() - since <= ONE_PASS,
            f"{name} open outside the window, {self._now() - since:.1f} s without an excuse",
        )

    # --- liveness -------------------------------------------------------------------------------------------------

    def has_workers(self, pool: Deployment) -> None:
        policy = self._policy[pool.name]
        demand = self._redis.queues[pool.name].in_flight
        enough = min(policy.max_workers, -(-demand // policy.jobs_per_worker))
        if policy.growth_per_minute is not None:
            enough = min(enough, 1)
        if demand:
            self.hold(
                "a pool with demand has workers within two sweeps",
                pool.exists and pool.replicas >= enough,
                f"{pool.name} has {pool.replicas} of {enough} workers for {demand} jobs",
            )
            self.counts["demand met"] += 1

    def zero_in_time(self, pool: Deployment, quiet_for: float) -> None:
        policy = self._policy[pool.name]
        bound = self._calm[pool.name] + POP_WINDOW + 3 * RESYNC
        self.hold(
            "a proven-empty pool reaches its minimum",
            pool.replicas <= policy.min_workers or quiet_for <= bound,
            f"{pool.name} still {pool.replicas}, empty for {quiet_for:.0f} s (bound {bound:.0f} s)",
        )

    def opened_in_time(self, name: str, is_open: bool, start: float) -> None:
        self.hold(
            "open within 5 s of the window's start", is_open, f"{name} is closed {self._now() - start:.1f} s into it"
        )
        self.counts["window starts met"] += 1
