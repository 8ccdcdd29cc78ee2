"""The shipped project file, as far as the engine reads it."""

import yaml

from ebbtide.settings.file.contents import STACKS
from tests.paths import ROOT


def test_the_shipped_project_names_no_plugin_of_its_own() -> None:
    """A `plugins` block would bind every customer to a path on the machine that wrote it."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())

    assert project.keys().isdisjoint({"plugins", "packages"})
    assert (ROOT / project["main"] / "__main__.py").is_file()
    assert project["stackConfigDir"] == STACKS
