"""Reads scenarios from a file: a list of them, one alone, or `{"scenarios": [...]}`. Every fault is reported at once.

A key that nobody knows is a fault if it looks like a slip of the pen; any other is left out, and said to be, since who
records a scenario may note more in it than a replay needs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ebbtide.settings.file.problems import Problem, show
from ebbtide.text.files import MOST_OF_A_DOCUMENT, read_file
from tests.fidelity.form import (
    CHANGE,
    FLAGS,
    GROUP,
    MAPPING,
    PACKING,
    REASONS,
    REQUIRED,
    ROW,
    SOME_SECONDS,
    TEXT,
    WORKLOAD,
    KeyForm,
    ValueForm,
)

OBSERVATIONS = ("observed", "final_packing", "unremovable_reasons")
KEYS = ("name", "flags", "node_groups", "workloads", "timeline", "end_s", *OBSERVATIONS)


class ScenarioInvalid(ValueError):
    """A file of scenarios cannot be used; the text has one line for each fault."""


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    scenarios: tuple[dict[str, Any], ...]  # complete: what was left out has its default, but for observations
    remarks: tuple[str, ...]


def read_scenarios(path: Path) -> ScenarioFile:
    """Raises: `ScenarioInvalid`."""
    reader = _ScenarioReader(str(path))
    try:
        document = json.loads(read_file(path, MOST_OF_A_DOCUMENT).decode("utf-8"))
    except OSError as error:
        raise ScenarioInvalid(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioInvalid(f"{path}: wanted JSON, found something else: {error}") from None
    scenarios = reader.document(document)
    if reader.problems:
        raise ScenarioInvalid("\n".join(str(problem) for problem in reader.problems))
    return ScenarioFile(tuple(scenarios), tuple(reader.remarks))


@dataclass
class _ScenarioReader:
    file: str
    problems: list[Problem] = field(default_factory=list[Problem])
    remarks: list[str] = field(default_factory=list[str])

    def document(self, found: object) -> list[dict[str, Any]]:
        if isinstance(found, Mapping):
            alone = cast(Mapping[str, object], found)
            found = alone.get("scenarios", [alone])
        entries: Sequence[object] = cast(Sequence[object], found) if isinstance(found, list) else ()
        if not entries:
            self._fault("", "no list of them", ValueForm("at least one scenario", '[{"name": ...}]', bool))
        scenarios = [self._scenario(entry, f"[{number}]", number) for number, entry in enumerate(entries)]
        return [scenario for scenario in scenarios if scenario is not None]

    def _scenario(self, found: object, at: str, number: int) -> dict[str, Any] | None:
        if not isinstance(found, Mapping):
            self._fault(at, found, MAPPING)
            return None
        given = cast(Mapping[str, object], found)
        self._unknown(given, KEYS, at)
        name = given.get("name", f"scenario {number + 1}")
        self._check(name, TEXT, f"{at}.name")
        if "end_s" not in given:
            self._missing(f"{at}.end_s", SOME_SECONDS)
        self._check(given.get("end_s", 1), SOME_SECONDS, f"{at}.end_s")
        parsed: dict[str, Any] = {
            "name": name,
            "flags": self._flags(given.get("flags", {}), f"{at}.flags"),
            "node_groups": self._all(given.get("node_groups", []), GROUP, f"{at}.node_groups"),
            "workloads": self._all(given.get("workloads", []), WORKLOAD, f"{at}.workloads"),
            "timeline": self._all(given.get("timeline", []), CHANGE, f"{at}.timeline"),
            "end_s": given.get("end_s", 1),
        }
        self._cross_check(parsed, at)
        return parsed | self._observations(given, at)

    def _observations(self, given: Mapping[str, object], at: str) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        if given.get("observed") not in (None, []):
            parsed["observed"] = self._all(given["observed"], ROW, f"{at}.observed")
        for key, kind in (("final_packing", PACKING), ("unremovable_reasons", REASONS)):
            if given.get(key) is not None:
                self._check(given[key], kind, f"{at}.{key}")
                parsed[key] = given[key]
        return parsed

    def _flags(self, found: object, at: str) -> dict[str, Any]:
        given = self._parts(found, FLAGS, at)
        if isinstance(found, Mapping) and "scale_down_delay_after_delete_s" not in found and given:
            given["scale_down_delay_after_delete_s"] = given["scan_interval_s"]
        return given

    def _all(self, found: object, form: Mapping[str, KeyForm], at: str) -> list[dict[str, Any]]:
        if not isinstance(found, list):
            self._fault(at, found, ValueForm("a list", "[]", bool))
            return []
        entries = cast(Sequence[object], found)
        return [self._parts(entry, form, f"{at}[{number}]") for number, entry in enumerate(entries)]

    def _parts(self, found: object, form: Mapping[str, KeyForm], at: str) -> dict[str, Any]:
        if not isinstance(found, Mapping):
            self._fault(at, found, MAPPING)
            return {}
        given = cast(Mapping[str, object], found)
        self._unknown(given, form, at)
        for key, part in form.items():
            if key in given:
                self._check(given[key], part.kind, f"{at}.{key}")
            elif part.default is REQUIRED:
                self._missing(f"{at}.{key}", part.kind)
        return {key: given.get(key, part.default) for key, part in form.items()}

    def _cross_check(self, parsed: Mapping[str, Any], at: str) -> None:
        """What no key can tell by itself; only asked where each of them is fine."""
        if self.problems:
            return
        for key in ("node_groups", "workloads"):
            names = [entry["name"] for entry in parsed[key]]
            for number, name in enumerate(names):
                if name in names[:number]:
                    self._fault(f"{at}.{key}[{number}].name", name, ValueForm("a name of its own", '"other"', bool))
        for number, group in enumerate(parsed["node_groups"]):
            if group["min"] > group["max"]:
                self._fault(f"{at}.node_groups[{number}].min", group["min"], ValueForm("no more than max", "0", bool))
        known = [workload["name"] for workload in parsed["workloads"]]
        for number, change in enumerate(parsed["timeline"]):
            for key in ("scale", "pdb"):
                for name in change[key]:
                    if name not in known:
                        wanted = ValueForm("the name of a workload", json.dumps(known[0] if known else "worker"), bool)
                        self._fault(f"{at}.timeline[{number}].{key}", name, wanted)

    def _unknown(self, given: Mapping[str, object], known: Sequence[str] | Mapping[str, KeyForm], at: str) -> None:
        for key in given:
            if key in known:
                continue
            if near := get_close_matches(key, known, n=1, cutoff=0.75):
                path = f"{at}.{key}"
                self.problems.append(
                    Problem(
                        code="key.unknown",
                        file=self.file,
                        line=None,
                        path=path,
                        found="an unknown key",
                        wanted="a key of the form",
                        example=near[0],
                        hint=f"did you mean {near[0]}?",
                    )
                )
            else:
                self.remarks.append(f"{self.file}: {at}.{key}: unknown, left out")

    def _check(self, value: object, kind: ValueForm, at: str) -> None:
        if not kind.fits(value):
            self._fault(at, value, kind)

    def _missing(self, at: str, kind: ValueForm) -> None:
        self.problems.append(
            Problem(
                code="key.missing",
                file=self.file,
                line=None,
                path=at,
                found="nothing",
                wanted=kind.wanted,
                example=kind.example,
            )
        )

    def _fault(self, at: str, found: object, kind: ValueForm) -> None:
        self.problems.append(
            Problem(
                code="value.refused",
                file=self.file,
                line=None,
                path=at,
                found=show(found),
                wanted=kind.wanted,
                example=kind.example,
            )
        )
