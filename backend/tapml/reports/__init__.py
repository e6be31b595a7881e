"""What people read: progress while something runs, tables when it has."""
