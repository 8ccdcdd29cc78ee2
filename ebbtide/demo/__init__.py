"""Real processes on one machine for demo and tests: a Redis, RQ workers as pods, jobs that keep their own records."""
