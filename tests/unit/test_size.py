"""What runs at night on other people's work must stay small enough to be read in an afternoon."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
CAP = 3_200


def test_the_controller_and_the_vocabulary_fit_in_3200_lines() -> None:
    modules = [module for folder in ("controllers", "ebbtide/vocabulary") for module in (ROOT / folder).rglob("*.py")]
    lines = {
        str(module.relative_to(ROOT)): sum(1 for line in module.read_text().splitlines() if line.strip())
        for module in modules
    }

    assert len(lines) > 20, "the folders have moved"
    assert sum(lines.values()) <= CAP, sorted(lines.items(), key=lambda entry: -entry[1])[:10]
