"""The rules that a stack's resources keep, whoever wrote them: plain functions, run without engine or cloud.

They look for what `ebbtide check` cannot see: workloads of a customer's own, overrides by a transformation, objects of
a cluster that was there already, edits by hand. What the settings or a type refuse has no rule here. May import
`components` for names and paths, never `infra`.
"""

from ebbtide.policies.judging import RULES, judge

__all__ = ["RULES", "judge"]
