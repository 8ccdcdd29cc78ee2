"""What is paid for but unused."""
