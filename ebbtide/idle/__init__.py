"""What is paid for and used by nobody."""
