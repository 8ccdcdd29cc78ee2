"""The price files of the release before prices of all regions: 81 types in five regions."""

from tests.paths import ROOT

BEFORE = ROOT / "tests" / "unit" / "prices" / "before"


def before(*, sizes: bool = False) -> dict[str, str]:
    """Return the files by name, as a directory for --prices holds them; with `sizes`, the table of sizes too."""
    paths = sorted(BEFORE.glob("*.csv"))
    return {path.name: path.read_text(encoding="utf-8") for path in paths if sizes or path.stem != "instance_types"}
