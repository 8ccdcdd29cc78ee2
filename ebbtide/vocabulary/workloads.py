"""Words that the provisioning side and the workload controller share."""

from ebbtide.vocabulary.labels import PREFIX

WANTED_SPEC = PREFIX + "spec"
"""Annotation on a RayCluster: what its spec is to be, as JSON."""
SLEEP = PREFIX + "sleep"
"""Annotation on what may sleep: when, and what wakes it, as JSON."""
