"""Services: the gateway, and the autoscalers of services."""
