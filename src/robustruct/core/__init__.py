"""The compiled core: loops in C (`*.c`), the structs that they take, one Python file per C file."""
