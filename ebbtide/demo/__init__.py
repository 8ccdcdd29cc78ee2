"""Real processes on one machine for demo and tests: a Redis, RQ workers as pods, a gateway, model servers."""
