"""`ebbtide adopt`: propose rules for pods that a cluster runs, as the section `ebbtide:adopted` of a stack file.

It only reads, with the user's own rights. `--label-running` adds the labels of the stack's rules to pods that are older
than the policy, and writes only with `--yes`.
"""

from typing import Annotated

import typer
from pydantic_core import PydanticCustomError

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.cluster import Context, Kubeconfig, cluster
from ebbtide.cli.console import fail
from ebbtide.operate.adopt.facts import adopt_facts
from ebbtide.operate.adopt.labelling import Labelling, label, labellings
from ebbtide.operate.adopt.text import adopt_lines
from ebbtide.operate.api import OperatorApi, find
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.sections.adopted import parse_team_namespace
from ebbtide.text.counts import several
from ebbtide.text.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_STACK_HELP = (
    "A name (demo for stacks/Pulumi.demo.yaml) or a path: pods that its rules select are left out, its nodes and "
    "prices are used, and its context is the default for --context."
)
_NAMESPACE_HELP = "Namespace with the team's pods; may be repeated."
_LABEL_HELP = (
    "List the pods that are older than the policy and that a rule of STACK selects; with --yes, add the rule's two "
    "labels. Until such a pod is replaced, it has labels and budget, but not the rule's nodes, anti-affinity and "
    "priority."
)
_YES_HELP = "With --label-running: write the labels."


@command.command(epilog="Example: ebbtide adopt acme --namespace jupyter --namespace mlflow")
def adopt(
    stack: Annotated[str | None, typer.Argument(metavar="[STACK]", help=_STACK_HELP)] = None,
    *,
    namespace: Annotated[list[str] | None, typer.Option("--namespace", "-n", help=_NAMESPACE_HELP)] = None,
    label_running: Annotated[bool, typer.Option("--label-running", help=_LABEL_HELP)] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=_YES_HELP)] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Propose rules for pods that charts and operators run."""
    settings = None if stack is None else _loaded(stack)
    namespaces = [_checked(name) for name in dict.fromkeys(namespace or ())]
    if yes and not label_running:
        fail("--yes: wanted with --label-running: without it, nothing is written", code=2)
    if label_running and settings is None:
        fail("--label-running: wanted the STACK whose rules give the labels, for example acme", code=2)
    if not label_running and not namespaces:
        fail("--namespace: wanted the namespaces to read, for example --namespace jupyter", code=2)
    with cluster(kubeconfig, context or (settings and settings.cluster.context)) as api:
        if label_running and settings is not None:
            _label_running(api, settings, namespaces, write=yes)
        else:
            if missing := [name for name in namespaces if not _exists(api, name)]:
                fail(f"--namespace: no namespace is called {', '.join(missing)}", code=2)
            for line in adopt_lines(adopt_facts(api, namespaces), settings):
                typer.echo(line)


def _exists(api: OperatorApi, namespace: str) -> bool:
    """True if the namespace exists, or if the user has no right to read it."""
    try:
        return find(api, f"/api/v1/namespaces/{namespace}") is not None
    except ApiError:
        return True


def _loaded(stack: str) -> StackSettings:
    try:
        return load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)


def _checked(namespace: str) -> str:
    try:
        return parse_team_namespace(namespace)
    except PydanticCustomError as error:
        said = error.context or {}
        hint = f"; {said['hint']}" if said.get("hint") else ""
        fail(f"--namespace: wanted {said['wanted']}, found {namespace!r} (for example {said['example']}){hint}", code=2)


def _label_running(api: OperatorApi, settings: StackSettings, namespaces: list[str], *, write: bool) -> None:
    rules = settings.adopted
    having = {rule.namespace for rule in rules.values()}
    if strange := sorted({*namespaces} - having):
        fail(f"--namespace: no rule of {settings.stack} selects pods of {', '.join(strange)}", code=2)
    pods = labellings(api, rules, sorted(namespaces or having))
    out = console()
    if not write:
        for each in pods:
            out.print(str(each))
        listed = f"{several(len(pods), 'pod')} would get labels"
        out.print(
            f"{listed}; nothing was written: add --yes" if pods else "no running pod lacks the labels of its rule"
        )
        return
    _write(api, pods)


def _write(api: OperatorApi, pods: list[Labelling]) -> None:
    failures: list[str] = []
    for labelling, failure in label(api, pods):
        if failure:
            failures.append(f"not labelled: {labelling}: {failure}")
        else:
            console().print(str(labelling))
    done = len(pods) - len(failures)
    console().print(f"{several(done, 'pod')} labelled{f', {len(failures)} not' if failures else ''}")
    if failures:
        fail(*failures)
