"""A real Kubernetes control plane on loopback, for tests, benchmarks and the playground. Never for production."""
