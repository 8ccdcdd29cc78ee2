"""Ray clusters of KubeRay: `spec` decides what is written of the spec, `sleep` what of `spec.suspend`."""
