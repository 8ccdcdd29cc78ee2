"""examples/ray-dataset, run small: files through CPU and GPU stages, with a GPU that Ray counts and nobody has."""

import json
from pathlib import Path

import pytest

from tests.builders.redis import wait_until
from tests.ray.drivers import Pool

pytestmark = pytest.mark.ray

TEXTS = (
    "a short one",
    "the tide goes out at night and nobody waits",
    "The tide goes out at night and nobody waits",
    "a cluster that shrinks safely pays for itself",
)


def test_texts_are_extracted_embedded_on_a_gpu_and_kept_once(pool: Pool, tmp_path: Path) -> None:
    raw, prepared = tmp_path / "raw", tmp_path / "prepared"
    raw.mkdir()
    for number in range(10):
        (raw / f"{number}.txt").write_text("\n".join([*TEXTS, f"a text of file {number} and of no other"]))
    pool.worker()

    job = pool.queue.enqueue("prepare.prepare", str(raw), str(prepared))

    wait_until(lambda: job.get_status() in {"finished", "failed"}, "the data set to be prepared")
    assert job.return_value() == {f"{number}.txt": 3 for number in range(10)}
    rows = [json.loads(line) for line in (prepared / "7.txt").read_text().splitlines()]
    assert [row["text"] for row in rows] == [TEXTS[1], TEXTS[3], "a text of file 7 and of no other"]
    assert {row["gpu"] for row in rows} == {"0"}
