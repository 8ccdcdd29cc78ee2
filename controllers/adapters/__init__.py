"""All input and output of the controllers: Redis, the Kubernetes API, clocks, waking, logs and metrics."""
