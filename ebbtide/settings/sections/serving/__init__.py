"""The sections of services: variants, scale, routes and the gateway."""
