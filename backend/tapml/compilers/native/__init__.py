"""tapml's own generator of WGSL: templates for operators by the structure of their programs, readable text."""
