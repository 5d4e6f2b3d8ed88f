"""Declares the functions of names.c and columns.c: names, column files and templates."""

from robustruct.core.declare import Bytes, Flags, Indices, Ints32
from robustruct.core.library import function
from robustruct.core.structs import ColumnArrays, ColumnRules, TemplateArrays

names_new = function("names_new", int)  # (seed), gives a handle
names_free = function("names_free", int)  # (handle)
names_count = function("names_count", int)  # (handle)
names_size = function("names_size", int)  # (handle)
names_copy = function("names_copy", int, Bytes, Indices)  # (handle, bytes, offsets)
names_joined = function(
    "names_joined", int, Bytes, int, int, int, bool, Ints32
)  # (handle, text, size, separator, n, grow, numbers)
names_packed = function(
    "names_packed", int, Bytes, Indices, int, Indices, bool, Ints32
)  # (handle, text, offsets, n, which, grow, numbers)
names_pairs = function(
    "names_pairs", int, Bytes, Indices, Ints32, Flags, int, Bytes, int, int, bool, Ints32
)  # (handle, keys, key_offsets, key_of, has_text, n, values, size, separator, grow, numbers)
first_seen = function("first_seen", int, Ints32, int, Indices)  # (n, codes, size, order)

count_columns = function(
    "count_columns", ColumnRules, Bytes, int, bool, Indices
)  # (rules, text, size, at_end, counts)
read_columns = function(
    "read_columns", ColumnRules, Bytes, int, ColumnArrays
)  # (rules, text, size, out)
number_words = function(
    "number_words", int, Bytes, ColumnArrays, int, Ints32
)  # (handle, text, tokens, column, numbers)
shift_codes = function(
    "shift_codes", int, int, Indices, Ints32, int, int, int, Ints32
)  # (first, last, offsets, codes, begin, row, marks, out)
apply_template = function("apply_template", TemplateArrays, int, Ints32)  # (template, handle, out)
