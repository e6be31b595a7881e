"""What `tapml.arrays` and `tapml.images` give in a task's VM, held against NumPy and OpenCV: random cases of each.

`python -m benchmarks.task_arrays [--examples N]` prints how many functions there are, and how many cases passed.
"""
