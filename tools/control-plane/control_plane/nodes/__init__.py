"""Real nodes on one Linux machine: containerd, kubelet and kube-proxy in separate namespaces, and images for them.

Nothing is reachable from outside, and nothing of the machine is changed: the driver first enters an isolated network
namespace, and everything in it ends with the driver.
"""
