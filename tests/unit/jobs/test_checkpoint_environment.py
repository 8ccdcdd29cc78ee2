"""`ebbtide-jobs` reads what Ebbtide writes from the stack file's section into a worker's environment."""

import pytest

from ebbtide.jobs.checkpoints.environment import VARIABLE, PoolCheckpoints, pool_checkpoints
from ebbtide.settings.sections.checkpoints import CHECKPOINTS_ENV, CheckpointSettings


@pytest.mark.parametrize(
    ("section", "read"),
    [
        (
            {"store": "s3://acme-saves/prod"},
            PoolCheckpoints(
                store="s3://acme-saves/prod/acme/train", every=300, save_within=90, required=False, open_within=600
            ),
        ),
        (
            {"claim": "saves", "every": "2m", "saveWithin": "30s", "required": True, "openWithin": "1h"},
            PoolCheckpoints(
                store="/var/lib/ebbtide/checkpoints/acme/train",
                every=120,
                save_within=30,
                required=True,
                open_within=3600,
            ),
        ),
    ],
    ids=["a bucket", "a claim"],
)
def test_workers_read_the_values_of_the_section(section: dict[str, object], read: PoolCheckpoints) -> None:
    written = CheckpointSettings.model_validate(section).variable("acme", "train")

    assert CHECKPOINTS_ENV == VARIABLE
    assert pool_checkpoints({VARIABLE: written}) == read
