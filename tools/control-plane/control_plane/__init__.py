"""A real Kubernetes control plane on loopback, for tests and benchmarks. Never for production."""
