"""Functions of lists.

view.py      lists as their values and lengths, which all functions compute on
codes.py     values as numbers that are equal, and in order, when the values are; two columns of
             lists or structs compared row by row
build.py     array list_repeat sequence list_zip
access.py    list_len list_get list_item list_contains list_position list_slice
combine.py   list_concat concat_list list_flatten list_append list_prepend list_drop_nulls
             list_reverse list_unique list_union list_intersect list_except list_sort list_min
             list_max
fold.py      list_sum list_mean list_any list_all list_join
"""
