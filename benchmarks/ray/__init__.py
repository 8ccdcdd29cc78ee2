"""What jobs on Ray cost; each needs Ray or real nodes."""
