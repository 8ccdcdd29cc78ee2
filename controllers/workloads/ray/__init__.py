"""Ray clusters of KubeRay: `spec` decides which parts of the spec are written, `sleep` decides `spec.suspend`."""
