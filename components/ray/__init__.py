"""Ray on Kubernetes: KubeRay's operator, and Ray clusters whose policy Pulumi writes and whose values others write."""
