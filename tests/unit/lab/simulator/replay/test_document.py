"""The JSON document of a replay."""

import json

from ebbtide.lab.simulator.results import as_json
from tests.builders.replay import a_replay


def test_the_document_has_the_promised_keys() -> None:
    document = as_json(a_replay(days=1))

    assert document.keys() >= {
        "schema",
        "seed",
        "stack",
        "trace",
        "days",
        "assumptions",
        "coverage",
        "jobs_unfit",
        "strategies",
        "replay_seconds",
        "start",
        "max_job_s",
        "attainable",
    }
    assert document["coverage"].keys() == {"jobs", "cpu_hours"}
    for strategy in document["strategies"].values():
        assert strategy.keys() >= {
            "node_hours",
            "node_hours_by_group",
            "usd",
            "jobs_done",
            "jobs_interrupted",
            "jobs_unfinished",
            "wait_p50_s",
            "wait_p95_s",
            "evictions_in_window",
            "evictions_in_business_hours",
            "budget_openings",
            "scale_downs_to_zero",
            "usd_on_demand",
            "usd_with_spot",
            "wait_p99_s",
            "lost_work_s",
            "survivors",
        }


def test_the_document_survives_json_with_its_figures() -> None:
    replay = a_replay(days=1)

    read = json.loads(json.dumps(as_json(replay)))

    product = replay.strategies["fixed-flexible"]
    assert read["strategies"]["fixed-flexible"]["node_hours_by_group"] == dict(product.node_hours_by_group)
    assert read["strategies"]["fixed-fleet"]["saving_vs_fixed_fleet"] is None
    assert read["start"] == "2026-03-02T00:00:00-05:00"
