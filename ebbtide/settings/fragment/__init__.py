"""`pod:`, a fragment of a PodSpec: what a pod may have beyond the short keys of the stack file.

`schema` knows the fields of Kubernetes, `shape` compares a fragment with them, `promises` refuses what would break a
promise of Ebbtide, and `size` counts what the further containers ask for. The merge is in `components.pods.fragment`.
"""
