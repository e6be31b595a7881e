"""`--compiler auto`: of several compilers and parameters, the kernels that are fastest on classes of devices."""
