"""Patterns in their normal form: what is refused; backtracking and RE2 agree on the rest."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.plan.patterns.regex import PatternFault, parse


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("a(?=b)", "look-ahead (?= at character 2"),
        ("a(?!b)", "look-ahead (?! at character 2"),
        ("(?<=a)b", "look-behind (?<= at character 1"),
        ("(?<!a)b", "look-behind (?<! at character 1"),
        ("(?>a)", "an atomic group (?> at character 1"),
        (r"(a)\1", "a back-reference at character 4"),
        (r"(?<x>a)\k<x>", "a back-reference at character 8"),
        ("a++", "a possessive quantifier"),
        ("a*+", "a possessive quantifier"),
        ("a{2}+", "a possessive quantifier"),
        ("a**", "a repeated repetition"),
        ("*a", "nothing to repeat at character 1"),
        ("a|+", "nothing to repeat at character 3"),
        ("(*a)", "nothing to repeat at character 2"),
        ("{", "nothing to repeat"),
        ("a{,3}", "a { that begins no repetition"),
        ("a{1,1001}", "a repetition {1,1001}; it takes 1 to 1000"),
        ("a{3,2}", "a repetition {3,2}"),
        ("a{0}", "a repetition {0}"),
        ("(a{1000}){1000}", "more repetitions than RE2 takes"),
        ("^*a", "a repeated edge"),
        (r"\b+", "a repeated edge"),
        ("(a*)*", "a repeated part that can match nothing"),
        ("(a|)+", "a repeated part that can match nothing"),
        ("(?:a?){2}", "a repeated part that can match nothing"),
        ("(a", "a group without its )"),
        ("a)", "an unmatched ) at character 2"),
        ("(" * 60 + ")" * 60, "groups more than 50 deep"),
        ("(?m)^a", "the flag (?m)"),
        ("(?x) a", "the flag (?x)"),
        ("(?iu)a", "the flag (?u)"),
        ("(?#no)", "an unknown kind of group"),
        ("(?<a>x)(?<a>y)", "a second group 'a'"),
        ("[a", "a class without its ]"),
        ("[]a]", "a class that begins with ]"),
        ("[a[b]]", "a class inside a class"),
        ("[[:alpha:]]", "a class inside a class"),
        ("[a-c&&b]", "an intersection of classes"),
        ("[b-a]", "a range that ends before it begins"),
        (r"[a-\d]", "a range that does not go from character to character"),
        (r"[^\s\S]", "a class without characters"),
        (r"\p{Greek}", r"the class \p{Greek}"),
        (r"\pX", r"the class \p{X}"),
        (r"\Z", "(the end before a line end); use $"),
        (r"\G", r"\G"),
        (r"\R", r"\R"),
        (r"\X", r"\X"),
        (r"\y", r"an unknown escape \y"),
        (r"\ud800", "an escape of no character"),
        (r"\x{110000}", "an escape of no character"),
        (r"\x1", "an unfinished escape"),
        ("a\\", "an unfinished pattern"),
    ],
)
def test_refused_by_name(pattern: str, what: str) -> None:
    with pytest.raises(PatternFault) as fault:
        parse(pattern)
    assert what in str(fault.value)


@pytest.mark.parametrize(
    ("pattern", "normal"),
    [
        (r"\d\s", "[0-9][\t-\r ]"),
        (r"[^\w]", "[^0-9A-Z_a-z]"),
        (".", "[^\n\r\x85\u2028-\u2029]"),
        ("(?s).", "[\0-\U0010ffff]"),
        ("(?i)k(?-i)k", "[Kk]k"),
        ("(?i:[^a-c])é", "(?:[^A-Ca-c])é"),
        ("a(?i)b|c", "a[Bb]|[Cc]"),
        ("(?<year>a)(?P<b>c)", "(a)(c)"),
        (r"\Qa.b\E+", r"a\.b+"),
        (r"\x41\x{1F600}\u00e9\t\07", "A😀é\t\x07"),
        ("a$", r"a\z"),
        (r"\A]}\z", r"^\]\}\z"),
        ("a{2,}?b*?", "a{2,}?b*?"),
    ],
)
def test_normal_form(pattern: str, normal: str) -> None:
    assert parse(pattern).re2() == normal
    assert parse(pattern).java() == normal


def test_edges_of_words_are_of_ascii_in_java_too() -> None:
    assert parse(r"\bé").re2() == r"\bé"
    assert parse(r"\bé").java().startswith("(?:(?<![0-9A-Z_a-z])(?=[0-9A-Z_a-z])|")


@pytest.mark.parametrize(
    ("pattern", "empty"),
    [("a", False), ("a*", True), ("a?b", False), ("^", True), ("^a|b", False), ("a|", True),
     ("(a|b*)", True), ("(?:a*b?)", True), (r"\b", True), ("", True), ("(?i)", True)],
)  # fmt: skip
def test_what_may_match_nothing(pattern: str, empty: bool) -> None:
    assert parse(pattern).empty == empty


def test_one_group_of_many() -> None:
    regex = parse("(a)((b)c)")
    assert regex.n_groups == 3
    assert regex.re2_of_group(2) == "(?:a)(?P<g>(?:b)c)"
    assert regex.re2_of_group(0) == "(?P<g>(?:a)(?:(?:b)c))"


ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", "(?i)b", "^", "$", r"\b", "é"])


def bigger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeated = st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}"]))
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map("({})".format),
        repeated.map(lambda pair: f"({pair[0]}){pair[1]}"),
    )


@settings(max_examples=300, deadline=None)
@given(pattern=st.recursive(ATOMS, bigger, max_leaves=6), text=st.text("abB1é\n😀", max_size=8))
def test_backtracking_and_re2_find_the_same(pattern: str, text: str) -> None:
    """Python looks for matches as Java does: the first alternative that works."""
    try:
        regex = parse(pattern)
    except PatternFault:
        return
    found = re.search(regex.re2().replace(r"\z", r"\Z"), text, re.A)
    for group in range(regex.n_groups + 1):
        expected = None if found is None else found[group] or ""
        answer = pc.extract_regex(pa.array([text]), pattern=regex.re2_of_group(group))
        assert (answer[0].as_py() or {"g": None})["g"] == expected, group
