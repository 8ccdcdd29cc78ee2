"""Declares the two objects that a test names, as it names them: a program that does not use Ebbtide's helper."""

import pulumi
from pulumi_kubernetes import Provider
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

config = pulumi.Config("declared")
pool, budget = config.require_object("pool"), config.require_object("budget")
cluster = Provider("cluster", kubeconfig="", context="test", enable_patch_force=config.require_bool("force"))
opts = pulumi.ResourceOptions(provider=cluster, ignore_changes=config.require_object("ignore"))
Deployment("pool", metadata=pool["metadata"], spec=pool["spec"], opts=opts)
PodDisruptionBudget("budget", metadata=budget["metadata"], spec=budget["spec"], opts=opts)
