"""What a model computes, and how large it is: sizes as expressions over symbols."""
