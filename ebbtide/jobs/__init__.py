"""Workers that can be scaled down without losing a job. Installed in worker images as `ebbtide-jobs`.

The distribution `ebbtide` contains the same files, so two versions in one environment would leave unclear which runs.
"""

from importlib.metadata import PackageNotFoundError, version

from ebbtide.jobs.checkpoints import checkpoint

__all__ = ["VersionsDiffer", "checkpoint"]

__version__ = "0.1.0"


class VersionsDiffer(RuntimeError):
    """Two versions are installed. Not an `ImportError`, which `rq worker` would replace by its own message."""


def _refuse_two_versions() -> None:
    try:
        jobs, product = version("ebbtide-jobs"), version("ebbtide")
    except PackageNotFoundError:
        return
    if jobs != product:
        raise VersionsDiffer(
            f"ebbtide {product} and ebbtide-jobs {jobs} are both installed and both bring ebbtide.jobs: "
            "pip uninstall --yes ebbtide ebbtide-jobs, then install the one you need (in a worker image: ebbtide-jobs)"
        )


_refuse_two_versions()
