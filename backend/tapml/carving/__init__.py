"""Run the reference platform with a real input and record every operator call (TapML paper, "Test Carving")."""
