"""What runs a program on this machine: the reference that carved tests come from."""
