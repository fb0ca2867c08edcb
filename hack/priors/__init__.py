"""Scripts that maintain the embedded capacity-prior catalog."""
