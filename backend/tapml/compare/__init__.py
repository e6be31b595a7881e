"""What results may differ by, and whether they do."""
