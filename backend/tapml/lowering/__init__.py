"""From a TVM module to a program, its operators and their programs. Knows TVM, as compilers do."""
