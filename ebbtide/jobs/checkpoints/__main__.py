"""`python -m ebbtide.jobs.checkpoints probe|sweep|list|where [JOB]` in a worker's container; the store is its pool's.

probe   try to write, read and delete there
sweep   remove the checkpoints of jobs that ended and whose result has lived its time
list    the checkpoints of a job
where   what Redis knows of a job, as JSON: `ebbtide why job` asks for it
"""

import argparse
import json
import sys
import time

from ebbtide.jobs.checkpoints.environment import VARIABLE, pool_checkpoints
from ebbtide.jobs.checkpoints.errors import CheckpointError
from ebbtide.jobs.checkpoints.kept import KeptCheckpoints, remove_what_is_done
from ebbtide.jobs.checkpoints.probe import probe
from ebbtide.jobs.checkpoints.stores import open_store
from ebbtide.jobs.checkpoints.where import connect, where


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m ebbtide.jobs.checkpoints", description="Checkpoints, where the pool's store is."
    )
    parser.add_argument("what", choices=["probe", "sweep", "list", "where"])
    parser.add_argument("job", nargs="?", help="a job's id, for list and where")
    given = parser.parse_args()
    if given.what in ("list", "where") and not given.job:
        parser.error(f"{given.what}: found no job, wanted its id, for example {given.what} 4f1c")
    try:
        _do(given.what, given.job)
    except CheckpointError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _do(what: str, job: str) -> None:
    if what == "where":
        print(json.dumps(where(connect(), job)))
        return
    pool = pool_checkpoints()
    if pool is None:
        raise CheckpointError(f"no {VARIABLE}: the pool's section of the stack file says no checkpoints")
    store = open_store(pool.store)
    if what == "probe":
        probe(store)
        print(f"checkpoints can be stored in {store.address}")
    elif what == "sweep":
        gone = remove_what_is_done(store, time.time())
        print(f"removed the checkpoints of {len(gone)} jobs that have ended")
    else:
        for header in KeptCheckpoints(store, job).headers():
            print(f"step {header.step}  saved {header.saved}  attempt {header.attempt}  {header.size} bytes")


if __name__ == "__main__":
    sys.exit(main())
