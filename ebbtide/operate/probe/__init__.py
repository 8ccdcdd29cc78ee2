"""`ebbtide probe`: facts about a cluster, requirements of a stack, and rules that compare them."""
