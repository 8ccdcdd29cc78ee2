"""What the engine itself intends: the output of `pulumi preview --json`, read as the changes of a page.

Only the engine knows what the cloud holds now, so a plan that fits replaces the changes found offline. It must be of
the same stack, project and program, of the same settings, and of a preview that ended well: any other would vouch for
what it never saw. The shape is that of `ShowPreviewDigest` in pulumi/pulumi, pkg/backend/display/json.go: the config,
and steps with op, urn, oldState, newState, replaceReasons and detailedDiff; of what stays as it is there is the step of
the stack alone.

Traps: a replacement may come as up to three steps of one URN, and then their order says whether the old one goes first;
the CLI writes one as a rule, and then the provider's own rule does. The CLI blinds secrets, but older state may hold
them as marked objects: those are masked here too. A value that is not known before the update is a text of its own.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from ebbtide.files import MOST_OF_A_DOCUMENT, read_file
from ebbtide.preview.changes import FOLLOWS, GOES_WITH, changes_between
from ebbtide.preview.document import ChangeKind, FieldChange, ResourceChange
from ebbtide.preview.replacing import goes_first
from ebbtide.recording.record import PROJECT, SECRET, SECRET_SIGNATURE, SIGNATURE
from ebbtide.recording.resources import Resource, short_type
from ebbtide.recording.values import mapping
from ebbtide.settings import StackInvalid, StackSettings
from ebbtide.settings.file.problems import one_line
from ebbtide.settings.load import settings_of_texts

Step: TypeAlias = Mapping[str, Any]

_REPLACING = {"replace", "create-replacement", "delete-replaced"}
_KINDS = {
    "create": ChangeKind.CREATE,
    "import": ChangeKind.CREATE,
    "update": ChangeKind.UPDATE,
    "delete": ChangeKind.DELETE,
    "discard": ChangeKind.DELETE,
}
_STACK_TYPE = "pulumi:pulumi:Stack"
_NOT_KNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # source: pulumi/pulumi, pkg/resource/stack/deployment.go
_KNOWN_LATER = "(known after the update)"
_WANTED = "wanted the output of `pulumi preview --json`"


class PlanUnusable(ValueError):
    """The file is no plan, or not this stack's; the message is one line, whatever names the file holds."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """`steps` are the engine's, of one stack, in its order; `config` is what it ran with, values as texts."""

    file: str
    stack: str
    project: str
    steps: tuple[Step, ...]
    config: Mapping[str, object]

    @property
    def stack_exists(self) -> bool:
        """Whether the engine ran for it before."""
        return any(step["op"] != "create" and _type(str(step["urn"])) == _STACK_TYPE for step in self.steps)


def read_plan(path: Path) -> EnginePlan:
    """Raises: `PlanUnusable`."""
    try:
        found: object = json.loads(read_file(path, MOST_OF_A_DOCUMENT).decode("utf-8"))
    except OSError as error:
        raise PlanUnusable(f"{path}: {error.strerror or error}; {_WANTED}") from None
    except (ValueError, RecursionError):  # of JSON and of UTF-8
        raise PlanUnusable(f"{path}: found something that is not one JSON document; {_WANTED}") from None
    return plan_of(found, str(path))


def plan_of(found: object, file: str) -> EnginePlan:
    """Raises: `PlanUnusable`."""
    steps = mapping(found).get("steps")
    if not isinstance(steps, list):
        raise PlanUnusable(f"{file}: steps: found no list of steps; {_WANTED}")
    known = [mapping(step) for step in cast("list[object]", steps)]
    parts = [str(step.get("urn", "")).split("::") for step in known]
    places = {(part[0].removeprefix("urn:pulumi:"), part[1]) for part in parts if len(part) >= 4}
    states = [mapping(step.get(key)) for step in known for key in ("oldState", "newState")]
    parts_of_states = [str(state["urn"]).split("::") for state in states if "urn" in state]
    whole = all(len(part) >= 4 for part in (*parts, *parts_of_states))
    if not whole or not all(isinstance(step.get("op"), str) for step in known):
        raise PlanUnusable(f"{file}: steps: found a step without an op or a URN; {_WANTED}")
    if len(places) != 1:
        raise PlanUnusable(f"{file}: steps: found {len(places)} stacks, wanted the steps of one; {_WANTED}")
    stack, project = next(iter(places))
    failed = any(mapping(told).get("severity") == "error" for told in _list(mapping(found).get("diagnostics")))
    if failed or not mapping(mapping(found).get("changeSummary")):
        raise PlanUnusable(f"{file}: the preview that wrote it failed, so it holds half of a plan; ignored")
    config = mapping(mapping(found).get("config"))
    return EnginePlan(file=file, stack=stack, project=project, steps=tuple(known), config=config)


def planned_changes(
    plan: EnginePlan, settings: StackSettings, registered: Sequence[Resource]
) -> tuple[ResourceChange, ...]:
    """The changes that the engine plans. `registered` is what this program registers for the stack.

    Raises: `PlanUnusable` for a plan of another stack, project or version.
    """
    _same_program(plan, settings.stack, registered)
    _same_settings(plan, settings)
    by_urn: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        by_urn[str(step["urn"])].append(step)
    going = [state for steps in by_urn.values() if (state := _state(steps, "oldState")) is not None]
    components = {one.urn: one for one in (*going, *registered) if not one.custom}
    found = [_change(steps, components) for urn, steps in by_urn.items() if not _is_scenery(urn)]
    return tuple(change for change in found if change is not None)


def _same_program(plan: EnginePlan, stack: str, registered: Sequence[Resource]) -> None:
    if plan.project != PROJECT:
        raise PlanUnusable(f"{plan.file}: a plan of project {plan.project}, wanted {PROJECT}; ignored")
    if plan.stack != stack:
        raise PlanUnusable(f"{plan.file}: a plan of stack {plan.stack}, wanted {stack}; ignored")
    known = {resource.urn for resource in registered}
    strange = [
        str(step["urn"])
        for step in plan.steps
        if step["op"] in {"same", "create", "update", "replace"}
        and not _is_scenery(str(step["urn"]))
        and step["urn"] not in known
        and str(step["urn"]).split("::")[2].startswith("ebbtide:components:")  # others are of the team's own program
    ]
    if strange:
        raise PlanUnusable(
            f"{plan.file}: a plan of another version: {_name(strange[0])} is in it and not in this program; ignored"
        )


def _same_settings(plan: EnginePlan, settings: StackSettings) -> None:
    """A plan that names no config is taken as it is."""
    if not plan.config:
        return
    try:
        planned = settings_of_texts(plan.config, stack=settings.stack, file=plan.file)
    except StackInvalid:
        raise PlanUnusable(
            f"{plan.file}: a plan of another version: its settings are not valid here; ignored"
        ) from None
    other = [name for name in StackSettings.model_fields if getattr(planned, name) != getattr(settings, name)]
    if other:
        verb = "is" if len(other) == 1 else "are"
        raise PlanUnusable(
            f"{plan.file}: a plan of another version: {', '.join(map(_key, other))} {verb} not as the stack file says; "
            "ignored"
        )


def _key(field: str) -> str:
    """As the stack file writes it."""
    return "redisPassword" if field == "redis_password_set" else StackSettings.model_fields[field].alias or field


def _is_scenery(urn: str) -> bool:
    """The stack itself, and providers: how resources are made, and no part of them."""
    type_ = _type(urn)
    return type_ == _STACK_TYPE or type_.startswith("pulumi:providers:")


def _change(steps: Sequence[Step], components: Mapping[str, Resource]) -> ResourceChange | None:
    ops = [str(step["op"]) for step in steps]
    replacing = bool(_REPLACING.intersection(ops))
    kind = ChangeKind.REPLACE if replacing else next((_KINDS[op] for op in ops if op in _KINDS), None)
    if kind is None:
        return None
    before = _state(steps, "oldState")
    after = _state(steps, "newState")
    urn = str(steps[0]["urn"])
    found = _offline_view(before, after, kind, components)
    named = dict.fromkeys(str(key) for step in steps for key in _list(step.get("replaceReasons")))
    reasons = tuple(_reason(key, steps) for key in named)
    return ResourceChange(
        kind=kind,
        type=short_type(urn.split("::")[2]),
        name=_name(urn),
        component="" if found is None else found.component,
        fields=_fields(found, steps) if kind in {ChangeKind.UPDATE, ChangeKind.REPLACE} else (),
        reasons=reasons,
        lowers=replacing and _old_goes_first(ops, before, after),
        urn=urn,
        protected=before is not None and before.protect,
    )


def _reason(key: str, steps: Sequence[Step]) -> str:
    with_ = next((str(mapping(step.get("oldState")).get(GOES_WITH) or "") for step in steps), "")
    return f"{key}{FOLLOWS}{_name(with_)}" if key == GOES_WITH and with_.count("::") >= 3 else key


def _old_goes_first(ops: Sequence[str], before: Resource | None, after: Resource | None) -> bool:
    if "delete-replaced" not in ops:
        return before is not None and after is not None and goes_first(before, after)
    later = [ops.index(op) for op in ("create-replacement", "replace") if op in ops]
    return not later or ops.index("delete-replaced") < min(later)


def _offline_view(
    before: Resource | None, after: Resource | None, kind: ChangeKind, components: Mapping[str, Resource]
) -> ResourceChange | None:
    """The same resource as the offline comparison shows it: its component, and fields with masked values."""
    if before is not None and after is not None:  # found by an alias, it may have had another URN
        before = replace(before, urn=after.urn, parent=after.parent)
    old = [] if before is None or kind is ChangeKind.CREATE else [before]
    new = [] if after is None or kind is ChangeKind.DELETE else [after]
    frame = list(components.values())
    found = changes_between([*frame, *old], [*frame, *new])
    return found[0] if found else None


def _fields(found: ResourceChange | None, steps: Sequence[Step]) -> tuple[FieldChange, ...]:
    """What the inputs show, and then the paths that only the provider sees: drift has no input that changed."""
    shown = () if found is None else found.fields
    paths = dict.fromkeys(path for step in steps for path in mapping(step.get("detailedDiff")))
    seen = [field.path for field in shown]
    rest = [path for path in paths if not any(_covers(one, path) or _covers(path, one) for one in seen)]
    return (*shown, *[FieldChange(path=path, before="", after="") for path in rest])


def _covers(path: str, other: str) -> bool:
    return other == path or other.startswith((f"{path}.", f"{path}["))


def _state(steps: Sequence[Step], key: str) -> Resource | None:
    state = next((mapping(step[key]) for step in steps if step.get(key)), None)
    if state is None:
        return None
    urn = str(state.get("urn", steps[0]["urn"]))
    parent = str(state.get("parent", ""))
    return Resource(
        urn=urn,
        type=str(state.get("type", _type(urn))),
        name=_name(urn),
        parent="" if f"::{_STACK_TYPE}::" in parent else parent,
        custom=state.get("custom") is not False,
        inputs=mapping(_without_secrets(state.get("inputs"))),
        protect=state.get("protect") is True,
    )


def _without_secrets(value: Any) -> Any:
    if value == _NOT_KNOWN:
        return _KNOWN_LATER
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        if given.get(SIGNATURE) == SECRET_SIGNATURE:
            return SECRET
        return {key: _without_secrets(item) for key, item in given.items()}
    return [_without_secrets(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _type(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
