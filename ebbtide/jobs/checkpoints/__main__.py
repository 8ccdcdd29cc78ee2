"""`python -m ebbtide.jobs.checkpoints probe|sweep|list|where [JOB]` in a worker's container, on its pool's store.

probe   try to write, read and delete there
sweep   remove the checkpoints of ended jobs whose result has expired
list    the checkpoints of a job
where   Redis' state of a job, as JSON: `ebbtide why job` uses it
"""

import argparse
import json
import sys
import time

from ebbtide.jobs.checkpoints.environment import VARIABLE, pool_checkpoints
from ebbtide.jobs.checkpoints.errors import CheckpointError
from ebbtide.jobs.checkpoints.probe import probe
from ebbtide.jobs.checkpoints.stored import StoredCheckpoints, remove_expired
from ebbtide.jobs.checkpoints.stores import open_store
from ebbtide.jobs.checkpoints.where import connect, where


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m ebbtide.jobs.checkpoints", description="Checkpoints in the pool's store."
    )
    parser.add_argument("what", choices=["probe", "sweep", "list", "where"])
    parser.add_argument("job", nargs="?", help="a job's id, for list and where")
    arguments = parser.parse_args()
    if arguments.what in ("list", "where") and not arguments.job:
        parser.error(f"{arguments.what}: found no job, wanted its id, for example {arguments.what} 4f1c")
    try:
        _run(arguments.what, arguments.job)
    except CheckpointError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(command: str, job: str) -> None:
    if command == "where":
        print(json.dumps(where(connect(), job)))
        return
    pool = pool_checkpoints()
    if pool is None:
        raise CheckpointError(f"no {VARIABLE}: the pool's section of the stack file has no checkpoints")
    store = open_store(pool.store)
    if command == "probe":
        probe(store)
        print(f"checkpoints can be stored in {store.address}")
    elif command == "sweep":
        jobs = remove_expired(store, time.time())
        print(f"removed the checkpoints of {len(jobs)} jobs that have ended")
    else:
        for header in StoredCheckpoints(store, job).headers():
            print(f"step {header.step}  saved {header.saved}  attempt {header.attempt}  {header.size} bytes")


if __name__ == "__main__":
    sys.exit(main())
