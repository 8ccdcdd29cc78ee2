"""Ray clusters of KubeRay: `spec` decides what of the spec is written, `sleep` decides `spec.suspend`."""
