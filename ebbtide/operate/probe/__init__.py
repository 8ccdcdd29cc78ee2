"""`ebbtide probe`: facts of a cluster, wants of a stack, and rules that compare them."""
