"""Rules about the resources of a stack: plain functions, run without engine or cloud.

They judge the parts that `ebbtide check` does not see: a customer's own workloads, overrides by a transformation,
objects of an existing cluster, manual edits. Faults that settings or types refuse have no rule. May import `components`
for names and paths, never `infra`.
"""

from ebbtide.policies.judging import RULES, judge

__all__ = ["RULES", "judge"]
