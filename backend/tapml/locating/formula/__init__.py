"""An operator's program as one formula, and which small change of it gives what a device gave."""
