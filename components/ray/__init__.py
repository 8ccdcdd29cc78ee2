"""Ray on Kubernetes: KubeRay's operator, and Ray clusters of which Pulumi writes the policy and others the values."""
