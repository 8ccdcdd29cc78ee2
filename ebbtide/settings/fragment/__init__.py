"""`pod:`, a fragment of a PodSpec for fields that have no short key in the stack file.

`schema` checks a fragment against Kubernetes' fields, `promises` refuses what would break a promise of Ebbtide, and
`size` adds the requests of further containers. `components.pods.fragment` merges the fragment.
"""
