"""Real nodes on one Linux machine: containerd, kubelet and kube-proxy in namespaces of their own, and images for them.

Nothing of it is reached from outside, and nothing of the machine is changed: whoever starts nodes first enters a
network namespace without a way out, and everything in it ends with them.
"""
