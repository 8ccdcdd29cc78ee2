"""Number and size of the nodes that a stack's pods need, and the controllers' config documents."""
