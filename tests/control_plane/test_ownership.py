"""Who owns replicas and budgets after each of them has written: the program, the controller, an operator.

The letters are those of docs/explanation/ownership.md. The program is a stand-in: it sends what the provider sends.
"""

import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from control_plane.plane.driver import ControlPlane

from components.ownership import MAX_UNAVAILABLE, REPLICAS
from controllers.adapters.kube_api import APPLY, ApiError
from controllers.scaler.budgets import window_at
from ebbtide.operate.api import MANAGER as OPERATOR
from ebbtide.operate.api import CannotOperate, Target
from ebbtide.operate.release import AUTOSCALER, release_from_autoscaler, release_one
from ebbtide.vocabulary.labels import FIELD_MANAGER, PAUSED
from ebbtide.vocabulary.windows import DisruptionWindow
from tests.builders.control_plane import eventually
from tests.builders.controllers import OFFICE
from tests.control_plane.support.applying import scale_as_autoscaler
from tests.control_plane.support.ownership import APPLY_MANAGER, Program, Provisioner, Site
from tests.counts import count

pytestmark = pytest.mark.control_plane

RESTART = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}
FRIDAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
WINDOW = DisruptionWindow(hours=OFFICE, closing_guard=timedelta(minutes=15))
OLD, NEW = Program(), Program(image="worker:2", label="b", memory="2Gi")


@pytest.fixture
def site(plane: ControlPlane) -> Site:
    return fresh_site(plane)


def fresh_site(plane: ControlPlane) -> Site:
    """Its namespace goes with the plane."""
    name = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return Site(plane, name)


@pytest.fixture
def program(plane: ControlPlane) -> Provisioner:
    """As Ebbtide declares its fields: both are ignored."""
    return Provisioner(plane.api)


def conflicts(update: Callable[[], object], field: str) -> None:
    with pytest.raises(ApiError, match=f'conflict with "{FIELD_MANAGER}".*{field}') as refused:
        update()
    assert refused.value.status == 409


@pytest.mark.parametrize("ignore", [(), ("spec.max_unavailable", "spec.min_replicas")], ids=["none", "snake case"])
def test_a_f_a_field_that_is_not_ignored_ends_in_a_conflict_which_no_preview_tells(
    site: Site, ignore: tuple[str, ...]
) -> None:
    program = Provisioner(site.api, ignore=ignore)
    site.create(program, OLD)
    site.scale(5)
    site.open(1)

    program.preview(site.pool, NEW.deployment(site.namespace))
    conflicts(lambda: program.update(site.pool, NEW.deployment(site.namespace)), ".spec.replicas")
    conflicts(lambda: program.update(site.budget, NEW.budget(site.namespace)), ".spec.maxUnavailable")

    assert (site.image, site.replicas, site.opening) == (OLD.image, 5, 1)


def test_b_force_takes_the_fields_back_at_every_update(site: Site) -> None:
    program = Provisioner(site.api, ignore=(), force=True)
    site.create(program, OLD)
    site.scale(5)
    site.open(1)

    site.update(program, NEW)

    assert (site.image, site.replicas, site.opening) == (NEW.image, 0, 0)


def test_c_an_ignored_field_stays_the_controllers(site: Site, program: Provisioner) -> None:
    site.create(program, OLD)
    site.scale(5)
    site.open(1)

    site.update(program, NEW)

    assert (site.image, site.replicas, site.opening) == (NEW.image, 5, 1)
    assert site.owners(REPLICAS) == site.owners(MAX_UNAVAILABLE) == [FIELD_MANAGER]


def test_c_a_field_that_the_controller_never_wrote_keeps_its_live_value(site: Site, program: Provisioner) -> None:
    site.create(program, OLD)
    site.update(program, OLD)
    site.api.patch(site.pool, {"spec": {"replicas": 2}}, fieldManager="kubectl-patch")

    site.update(program, NEW)

    assert (site.image, site.replicas, site.opening) == (NEW.image, 2, 0)
    assert APPLY_MANAGER in site.owners(REPLICAS)
    site.scale(4)
    site.update(program, OLD)
    assert (site.image, site.replicas) == (OLD.image, 4)


@pytest.mark.parametrize("written", [0, 1, 5])
def test_d_a_field_that_was_never_declared_stays_as_the_controller_wrote_it(site: Site, written: int) -> None:
    program = Provisioner(site.api, ignore=())
    site.create(program, OLD, replicas=None, maxUnavailable=None)
    site.scale(written)
    site.open(1)

    site.update(program, NEW, replicas=None, maxUnavailable=None)

    assert (site.image, site.replicas, site.opening) == (NEW.image, written, 1)


def test_d_a_field_that_nobody_writes_is_one_worker_and_a_closed_budget(site: Site) -> None:
    program = Provisioner(site.api, ignore=())
    site.create(program, OLD, replicas=None, maxUnavailable=None)

    site.update(program, NEW, replicas=None, maxUnavailable=None)

    assert (site.replicas, site.opening) == (1, None)


def by_program(site: Site, change: Program, **fields: None) -> None:
    site.update(Provisioner(site.api, ignore=()), change, **fields)


def by_kubectl(site: Site, change: Program, **fields: None) -> None:
    """As `kubectl apply --server-side` does."""
    spec = {"replicas": None} if fields else {}
    budget = {"maxUnavailable": None} if fields else {}
    site.api.patch(site.pool, change.deployment(site.namespace, **spec), APPLY, fieldManager="kubectl")
    site.api.patch(site.budget, change.budget(site.namespace, **budget), APPLY, fieldManager="kubectl")


APPLIERS = pytest.mark.parametrize("apply", [by_program, by_kubectl])


def declared(site: Site, apply: Callable[..., None]) -> None:
    """Both fields at 0, by whoever leaves them out later."""
    if apply is by_program:
        site.create(Provisioner(site.api, ignore=()), OLD)
    apply(site, OLD)


@APPLIERS
@pytest.mark.parametrize("written", [0, 1, 5])
def test_e_a_field_that_is_left_out_later_stays_as_the_controller_wrote_it(
    site: Site, apply: Callable[..., None], written: int
) -> None:
    declared(site, apply)
    site.scale(written)
    site.open(1)

    apply(site, NEW, replicas=None, maxUnavailable=None)

    assert (site.image, site.replicas, site.opening) == (NEW.image, written, 1)


@APPLIERS
def test_e_a_field_that_is_left_out_before_the_controller_wrote_it_is_reset_to_what_harms_nobody(
    site: Site, apply: Callable[..., None]
) -> None:
    declared(site, apply)

    apply(site, NEW, replicas=None, maxUnavailable=None)

    assert (site.image, site.replicas, site.opening) == (NEW.image, 1, None)


def test_g_a_writer_under_the_programs_own_name_is_taken_for_the_program(site: Site, program: Provisioner) -> None:
    site.create(program, OLD)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {"replicas": 5}}
    site.api.apply(f"{site.pool}/scale", scale, manager=APPLY_MANAGER)

    program.update(site.pool, NEW.deployment(site.namespace))

    entries = site.api.get(site.pool)["metadata"]["managedFields"]
    owning = [it.get("subresource", "") for it in entries if "f:replicas" in it["fieldsV1"].get("f:spec", {})]
    assert sorted(owning) == ["", "scale"]  # sent again, and so owned twice over
    assert site.replicas == 5


@pytest.mark.parametrize("value", [0, 1])
def test_h_the_same_value_from_both_harms_nobody_later(site: Site, program: Provisioner, value: int) -> None:
    site.create(program, OLD, replicas=value, maxUnavailable=value)
    site.scale(value)
    site.open(value)
    site.update(program, NEW)
    site.scale(3)
    site.open(1 - value)

    site.update(program, OLD)

    assert (site.image, site.replicas, site.opening) == (OLD.image, 3, 1 - value)


def test_l_a_first_write_before_an_update_applies_is_one_conflict_and_the_next_run_is_clean(
    site: Site, program: Provisioner
) -> None:
    site.create(program, OLD)
    body = NEW.deployment(site.namespace)

    conflicts(lambda: program.update(site.pool, body, before_applying=lambda: site.scale(5)), ".spec.replicas")
    assert (site.image, site.replicas) == (OLD.image, 5)
    program.update(site.pool, body, before_applying=lambda: site.scale(6))

    assert (site.image, site.replicas) == (NEW.image, 6)


def test_l_a_first_write_right_after_an_update_has_read_is_sent_again_and_no_conflict(
    site: Site, program: Provisioner
) -> None:
    site.create(program, OLD)

    program.update(site.pool, NEW.deployment(site.namespace), after_reading=lambda: site.scale(5))
    assert (site.image, site.replicas) == (NEW.image, 5)
    site.scale(6)
    program.update(site.pool, OLD.deployment(site.namespace))

    assert (site.image, site.replicas) == (OLD.image, 6)


def autoscaled(site: Site, replicas: int) -> None:
    """By a HorizontalPodAutoscaler, which the pool of this site has in place of the controller."""
    scale_as_autoscaler(site.api, site.pool, replicas)


@pytest.mark.parametrize("opening", [0, 1], ids=["by day", "by night"])
def test_m_what_an_autoscaler_wrote_stays_and_so_does_the_budget(
    site: Site, program: Provisioner, opening: int
) -> None:
    site.create(program, OLD, replicas=2)
    autoscaled(site, 7)
    site.open(opening)

    for change in (NEW, OLD):
        site.update(program, change, replicas=2)
        assert (site.image, site.replicas, site.opening) == (change.image, 7, opening)

    assert site.owners(REPLICAS) == [AUTOSCALER]


def test_m_a_minimum_that_is_raised_is_the_autoscalers_to_follow(site: Site, program: Provisioner) -> None:
    site.create(program, OLD, replicas=2)
    autoscaled(site, 3)

    site.update(program, NEW, replicas=5)
    assert (site.image, site.replicas) == (NEW.image, 3)
    autoscaled(site, 5)
    site.update(program, OLD, replicas=5)

    assert (site.image, site.replicas, site.owners(REPLICAS)) == (OLD.image, 5, [AUTOSCALER])


def fixed(site: Site) -> Provisioner:
    """With `min` equal to `max`: replicas are declared, and not ignored."""
    return Provisioner(site.api, ignore=[MAX_UNAVAILABLE])


def grown(site: Site, replicas: int) -> None:
    site.create(Provisioner(site.api), OLD, replicas=2)
    autoscaled(site, replicas)


def test_n_a_service_that_grew_gets_a_fixed_number_only_while_it_has_that_number(site: Site) -> None:
    grown(site, 5)
    body = NEW.deployment(site.namespace, replicas=4)

    with pytest.raises(ApiError, match=f'conflict with "{AUTOSCALER}".*.spec.replicas'):
        fixed(site).update(site.pool, body)
    assert (site.image, site.replicas) == (OLD.image, 5)
    autoscaled(site, 4)
    fixed(site).update(site.pool, body)

    assert (site.image, site.replicas) == (NEW.image, 4)


def test_n_another_number_is_a_conflict_until_the_autoscaler_is_released(site: Site) -> None:
    grown(site, 4)
    site.update(fixed(site), NEW, replicas=4)
    six = OLD.deployment(site.namespace, replicas=6)

    with pytest.raises(ApiError, match=f'conflict with "{AUTOSCALER}".*.spec.replicas'):
        fixed(site).update(site.pool, six)
    (told,) = release_from_autoscaler(site.api, site.namespace, ["train"])
    assert (told.done, site.replicas) == (True, 4)
    fixed(site).update(site.pool, six)

    assert (site.image, site.replicas, AUTOSCALER in site.owners(REPLICAS)) == (OLD.image, 6, False)
    (again,) = release_from_autoscaler(site.api, site.namespace, ["train"])
    assert "was not an autoscaler's" in again.detail


def autoscaler(site: Site, least: int) -> dict[str, object]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 9}
    metadata = {"name": "train", "namespace": site.namespace}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def test_n_nothing_is_released_while_an_autoscaler_would_take_it_back(site: Site) -> None:
    grown(site, 4)
    site.api.create(f"/apis/autoscaling/v2/namespaces/{site.namespace}/horizontalpodautoscalers", autoscaler(site, 2))

    with pytest.raises(CannotOperate, match="an HPA scales train"):
        list(release_from_autoscaler(site.api, site.namespace, ["train"]))
    with pytest.raises(CannotOperate, match="is called nosuch"):
        list(release_from_autoscaler(site.api, site.namespace, ["nosuch"]))


def test_m_a_real_autoscaler_follows_its_minimum_and_keeps_what_it_wrote(control_plane: ControlPlane) -> None:
    """Without any metrics: below its minimum it asks nobody."""
    site = fresh_site(control_plane)
    program = Provisioner(site.api)
    site.create(program, OLD, replicas=1)
    path = f"/apis/autoscaling/v2/namespaces/{site.namespace}/horizontalpodautoscalers"
    site.api.create(path, autoscaler(site, 2))
    eventually(lambda: site.replicas == 2, what="the autoscaler to write its minimum")

    site.update(program, NEW, replicas=3)
    site.api.patch(f"{path}/train", {"spec": {"minReplicas": 3}})
    eventually(lambda: site.replicas == 3, what="the autoscaler to follow")
    site.update(program, OLD, replicas=3)

    assert (site.image, site.replicas, site.owners(REPLICAS)) == (OLD.image, 3, [AUTOSCALER])
    control_plane.api.delete(f"{path}/train")
    control_plane.api.delete(site.pool)


def test_an_operators_pause_outlasts_updates_and_a_restart_by_kubectl_does_not(
    site: Site, program: Provisioner
) -> None:
    """The program takes over what kubectl wrote, and then it is missing there; our commands have their own name."""
    site.create(program, OLD)
    site.api.patch(site.pool, {"metadata": {"annotations": {PAUSED: "new driver"}}}, fieldManager=OPERATOR)
    site.api.patch(site.pool, RESTART, fieldManager="kubectl-rollout")

    site.update(program, NEW)

    pool = site.api.get(site.pool)
    assert pool["metadata"]["annotations"][PAUSED] == "new driver"
    assert "annotations" not in pool["spec"]["template"]["metadata"]


def test_what_kubectl_leaves_out_may_be_scaled_by_hand_and_is_nobodys_afterwards(site: Site) -> None:
    body = {**OLD.deployment(site.namespace, replicas=None)}
    site.api.patch(site.pool, body, APPLY, fieldManager="kubectl")
    assert site.replicas == 1

    site.plane.kubectl("--namespace", site.namespace, "scale", "deployment", "--all", "--replicas=0")
    by_kubectl(site, NEW, replicas=None)

    assert (site.image, site.replicas, site.owners(REPLICAS)) == (NEW.image, 0, [])


# --- any order of all of them -----------------------------------------------------------------------------------------


class Story:
    """What each of them wrote last, beside what the cluster has."""

    def __init__(self, site: Site, random: Random) -> None:
        self.site, self.random = site, random
        self.program, self.provisioner = Program(), Provisioner(site.api)
        self.now = FRIDAY
        self.replicas, self.opening, self.pause = 0, 0, ""
        site.create(self.provisioner, self.program)

    def program_changes(self) -> None:
        self._change()
        self.site.update(self.provisioner, self.program)

    def program_previews(self) -> None:
        self.provisioner.preview(self.site.pool, self.program.deployment(self.site.namespace))

    def controller_scales(self) -> None:
        self.replicas = self.random.randrange(7)
        self.site.scale(self.replicas)

    def hours_pass(self) -> None:
        """The controller flips the budget at each edge of the window."""
        until = self.now + timedelta(hours=self.random.randint(1, 14))
        while (edge := WINDOW.next_change(self.now)) is not None and edge <= until:
            self.now, self.opening = edge, window_at(edge, WINDOW).decision.max_unavailable
            self.site.open(self.opening)
        self.now = until

    def controller_scales_in_the_middle_of_an_update(self) -> None:
        """One conflict at most, and none where the controller had the field to itself."""
        self._change()
        owned = self.site.owners(REPLICAS)
        body = self.program.deployment(self.site.namespace)
        try:
            self.provisioner.update(self.site.pool, body, before_applying=self.controller_scales)
        except ApiError as error:
            if error.status != 409 or owned == [FIELD_MANAGER]:
                raise
        self.site.update(self.provisioner, self.program)

    def operator_scales(self) -> None:
        self.replicas = self.random.randrange(7)
        scale = {"spec": {"replicas": self.replicas}}
        self.site.api.patch(f"{self.site.pool}/scale", scale, fieldManager="kubectl")

    def operator_pauses(self) -> None:
        """By `ebbtide pause`."""
        self.pause = f"since {self.now}"
        self.site.api.patch(self.site.pool, {"metadata": {"annotations": {PAUSED: self.pause}}}, fieldManager=OPERATOR)

    def _change(self) -> None:
        number = self.random.randrange(1, 1000)
        change = self.random.choice(({"image": f"worker:{number}"}, {"label": f"l{number}"}, {"memory": f"{number}Mi"}))
        self.program = replace(self.program, **change)

    def agrees(self) -> None:
        pool, budget = self.site.api.get(self.site.pool), self.site.api.get(self.site.budget)
        container = pool["spec"]["template"]["spec"]["containers"][0]
        live = Program(
            image=container["image"],
            label=pool["metadata"]["labels"]["test"],
            memory=container["resources"]["requests"]["memory"],
        )
        assert (live, pool["metadata"].get("annotations", {}).get(PAUSED, "")) == (self.program, self.pause)
        assert (pool["spec"].get("replicas", 0), budget["spec"]["maxUnavailable"]) == (self.replicas, self.opening)


STEPS = (
    Story.program_changes,
    Story.program_previews,
    Story.controller_scales,
    Story.hours_pass,
    Story.controller_scales_in_the_middle_of_an_update,
    Story.operator_scales,
    Story.operator_pauses,
)


def told(plane: ControlPlane, seed: int) -> None:
    """Ten steps in any order; then the controller is gone, and then its ownership too."""
    random = Random(seed)
    story = Story(fresh_site(plane), random)
    for step in random.choices(STEPS, k=10):
        step(story)
        story.agrees()
    for _ in range(2):
        story.program_changes()
        story.agrees()
    released(story.site)
    story.agrees()
    story.program_changes()
    story.agrees()
    assert FIELD_MANAGER not in (*story.site.owners(REPLICAS), *story.site.owners(MAX_UNAVAILABLE))


def released(site: Site) -> None:
    """By `ebbtide release`."""
    for target in (Target("pool", "train", site.pool), Target("budget", "api", site.budget)):
        assert release_one(site.api, target).done


@pytest.mark.parametrize("seed", range(50))
def test_in_any_order_no_update_conflicts_and_no_value_is_lost(seed: int, plane: ControlPlane) -> None:
    told(plane, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50, 50 + count(1000, 200)))
def test_in_many_more_orders_no_update_conflicts_and_no_value_is_lost(seed: int, plane: ControlPlane) -> None:
    told(plane, seed)
