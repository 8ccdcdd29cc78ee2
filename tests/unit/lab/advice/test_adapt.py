"""Pools and nodes are replaced in a stack file's text; everything else stays, including comments."""

import pytest

from ebbtide.lab.advice.adapt import adapted_stack
from ebbtide.lab.advice.suggest import NoSuggestion
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.settings import StackInvalid
from ebbtide.settings.file.contents import no_files
from ebbtide.settings.load import stack_of_text
from tests.builders.simulator import HOUR, a_job, a_trace

JOBS = a_trace([a_job(0, HOUR, cpu=6, memory=20), a_job(60, HOUR, cpu=6, memory=20, gpu=1)])
FILE = """\
# the first line
config:
  ebbtide:customer: acme # a name
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:nodeGroups:
    fixed: { instanceTypes: [m7i.xlarge], min: 3, max: 5, diskSize: 80 }
    flexible:
      instanceTypes: [m7i.2xlarge]
      max: 9
      priority: 3
      reserved: { cpu: 500m }
    gpu: { instanceTypes: [g5.xlarge], max: 2 }
    spot: { max: 4 }

  # about services
  ebbtide:workloads:
    api: { category: flexible, image: "r.example/api:1", cpu: 1, memory: 2Gi }
  ebbtide:workers:
    train: { source: { queues: [train] }, image: "r.example/t:1", max: 4, cpu: 3, memory: 9Gi, longestJob: 1h }

    # the last pool
    embed: { source: { queues: [embed] }, image: "r.example/e:1", max: 2, cpu: 3, memory: 9Gi, gpu: 1, longestJob: 1h }
  # about money
  ebbtide:costs: { pricingAssumption: on-demand }
"""


def test_lines_about_anything_else_stay_where_they_are() -> None:
    adapted = adapted_stack(FILE, "acme.yaml", no_files, JOBS).splitlines()

    for line in FILE.splitlines():
        about_pools = any(word in line for word in ("train:", "embed:", "the last pool"))
        about_groups = any(word in line for word in ("fixed:", "flexible:", "gpu:", "spot:", "      "))
        if not about_pools and not about_groups:
            assert line in adapted
    assert not any("train" in line or "the last pool" in line for line in adapted)
    assert adapted.index("  # about services") + 1 == adapted.index("  ebbtide:workloads:")
    assert adapted.index("  # about money") + 1 == len(adapted) - 1


def test_groups_for_services_stay_and_the_others_are_made_for_the_jobs() -> None:
    before = stack_of_text(FILE, stack="acme", file="acme.yaml")

    after = stack_of_text(adapted_stack(FILE, "acme.yaml", no_files, JOBS), stack="acme", file="acme.yaml")

    assert after.node_groups["fixed"] == before.node_groups["fixed"]
    assert after.node_groups["flexible"] == before.node_groups["flexible"]
    assert after.node_groups["gpu"].instance_types != ("g5.xlarge",)
    assert "spot" not in after.node_groups
    assert {pool.gpu.count for pool in after.workers.values()} == {0, 1}
    assert "flexible" not in {pool.node_group for pool in after.workers.values()}


@pytest.mark.parametrize(
    ("usual", "named"),
    [("cluster-autoscaler", "karpenter"), ("karpenter", "cluster-autoscaler"), ("karpenter", "karpenter")],
)
def test_a_group_keeps_its_provisioner(usual: str, named: str) -> None:
    types = "[m7i.2xlarge, m7i.4xlarge]" if named == "karpenter" else "[m7i.2xlarge]"
    file = FILE.replace("instanceTypes: [m7i.2xlarge]", f"instanceTypes: {types}\n      provisioner: {named}")
    file = file.replace("config:\n", f"config:\n  ebbtide:cluster: {{ provisioner: {usual} }}\n")
    before = stack_of_text(file, stack="acme", file="acme.yaml")

    after = stack_of_text(adapted_stack(file, "acme.yaml", no_files, JOBS), stack="acme", file="acme.yaml")

    assert before.node_groups["flexible"].provisioner == named
    assert after.node_groups["flexible"] == before.node_groups["flexible"]


def test_a_gpu_group_that_a_service_needs_stays() -> None:
    file = FILE.replace("cpu: 1, memory: 2Gi", "cpu: 1, memory: 2Gi, gpu: 1")

    after = stack_of_text(adapted_stack(file, "acme.yaml", no_files, JOBS), stack="acme", file="acme.yaml")

    assert after.node_groups["gpu"].instance_types == ("g5.xlarge",)


def test_a_file_without_node_groups_gets_them() -> None:
    start, end = FILE.index("  ebbtide:nodeGroups:"), FILE.index("\n  # about services")
    file = FILE[:start] + FILE[end + 1 :].removesuffix("\n")

    after = stack_of_text(adapted_stack(file, "acme.yaml", no_files, JOBS), stack="acme", file="acme.yaml")

    assert {"fixed", "flexible", "gpu"} <= set(after.node_groups)
    assert after.costs.pricing_assumption == "on-demand"


def test_adapting_twice_changes_nothing_more() -> None:
    once = adapted_stack(FILE, "acme.yaml", no_files, JOBS)

    assert list(stack_of_text(adapted_stack(once, "acme.yaml", no_files, JOBS), stack="a", file="a").workers) == list(
        stack_of_text(once, stack="a", file="a").workers
    )


def test_a_line_that_names_a_pool_that_is_gone_is_refused_with_its_place() -> None:
    file = FILE.replace(
        '"08:00-18:00" } }', '"08:00-18:00" }, overnight: [{ pool: train, at: "02:00", for: 1h, workers: 1 }] }'
    )

    with pytest.raises(NoSuggestion, match=r"change these first:\n  acme\.yaml:4: .*overnight\[0\]\.pool"):
        adapted_stack(file, "acme.yaml", no_files, JOBS)


def test_a_region_without_prices_is_named() -> None:
    file = FILE.replace("config:", "config:\n  aws:region: ap-east-2")

    with pytest.raises(
        NoSuggestion, match="ap-east-2: wanted prices, which choose the nodes, found none; `ebbtide pri"
    ):
        adapted_stack(file, "acme.yaml", no_files, JOBS)


def test_an_unsound_file_and_an_existing_cluster_are_refused() -> None:
    with pytest.raises(StackInvalid):
        adapted_stack(FILE.replace("acme #", "A #"), "acme.yaml", no_files, JOBS)
    start, end = FILE.index("  ebbtide:nodeGroups:"), FILE.index("\n  # about services")
    existing = (FILE[:start] + "  ebbtide:cluster: { kind: existing, context: here }\n" + FILE[end + 1 :]).replace(
        "  ebbtide:costs: { pricingAssumption: on-demand }\n", ""
    )
    with pytest.raises(ReplayError, match="wanted a stack that creates its nodes, found an existing cluster"):
        adapted_stack(existing, "acme.yaml", no_files, JOBS)


def test_pools_and_groups_of_a_base_go_too() -> None:
    start, end = FILE.index("  ebbtide:nodeGroups:"), FILE.index("\n  # about services")
    base = f"config:\n{FILE[start:end]}  ebbtide:workers: {{ jobs-8cpu: {{ env: {{ A: x }} }}, old: {{ max: 3 }} }}\n"
    file = (FILE[:start] + FILE[end + 1 :]).replace("config:\n", "config:\n  ebbtide:base: base.yaml\n")
    file = file.replace("  ebbtide:workers:\n", "  ebbtide:workers:\n    jobs-8cpu: null\n    old: null\n")

    def reader(path: str) -> bytes:
        if path != "base.yaml":
            raise FileNotFoundError(path)
        return base.encode()

    whole = stack_of_text(adapted_stack(FILE, "acme.yaml", no_files, JOBS), stack="acme", file="acme.yaml")

    adapted = adapted_stack(file, "acme.yaml", reader, JOBS)
    after = stack_of_text(adapted, stack="acme", file="acme.yaml", reader=reader)

    assert (after.workers, after.node_groups) == (whole.workers, whole.node_groups)
    assert "old: null" in adapted
