"""Services: the gateway that requests come through, and what makes services grow and shrink."""
