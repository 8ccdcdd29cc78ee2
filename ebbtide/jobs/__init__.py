"""Workers that can be scaled down without losing a job. Installed in worker images as `ebbtide-jobs`.

The distribution `ebbtide` brings the same files, so with two versions in one environment nobody could tell which runs.
"""

from importlib.metadata import PackageNotFoundError, version

from ebbtide.jobs.checkpoints import checkpoint

__all__ = ["VersionsDiffer", "checkpoint"]

__version__ = "0.1.0"


class VersionsDiffer(RuntimeError):
    """Not an `ImportError`: `rq worker` replaces one by a message of its own."""


def _refuse_two_versions() -> None:
    try:
        jobs, whole = version("ebbtide-jobs"), version("ebbtide")
    except PackageNotFoundError:
        return
    if jobs != whole:
        raise VersionsDiffer(
            f"ebbtide {whole} and ebbtide-jobs {jobs} are both installed and both bring ebbtide.jobs: "
            "pip uninstall --yes ebbtide ebbtide-jobs, then install the one you need (in a worker image: ebbtide-jobs)"
        )


_refuse_two_versions()
