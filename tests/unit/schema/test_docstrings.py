"""Docstrings in three styles, and in no style."""

import pytest
from msgspec.structs import astuple

from twopipes._schema.docstrings import read_docstring as read


def read_docstring(text):
    return astuple(read(text))


GOOGLE = """Adds two numbers.

    Slowly.

    Args:
        first: The one
            on the left.
        second (int | None, optional): The other: on the right.
        *rest: All others.
        bare:

            Said below.

    Returns:
        The sum.
    """

NUMPY = """Adds two numbers.

    Slowly.

    Parameters
    ----------
    first : int
        The one
        on the left.
    second, third : int, optional
        The others.
    *rest
        All others.

    Returns
    -------
    int
        The sum.
    """

SPHINX = """Adds two numbers.

    Slowly.

    :param first: The one
        on the left.
    :type first: int
    :param int second: The other.
    :arg \\*rest: All others.
    :returns: The sum.
    """


@pytest.mark.parametrize(
    ("text", "description", "parameters"),
    [
        (
            GOOGLE,
            "Adds two numbers.\n\nSlowly.\n\nReturns:\n    The sum.",
            {
                "first": "The one on the left.",
                "second": "The other: on the right.",
                "rest": "All others.",
                "bare": "Said below.",
            },
        ),
        (
            NUMPY,
            "Adds two numbers.\n\nSlowly.\n\nReturns\n-------\nint\n    The sum.",
            {"first": "The one on the left.", "second": "The others.", "third": "The others.", "rest": "All others."},
        ),
        (
            SPHINX,
            "Adds two numbers.\n\nSlowly.\n\n:returns: The sum.",
            {"first": "The one on the left.", "second": "The other.", "rest": "All others."},
        ),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_the_parameters_are_removed_from_the_description(text, description, parameters):
    assert read_docstring(text) == (description, parameters)


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_a_missing_docstring_gives_an_empty_description(text):
    assert read_docstring(text) == ("", {})


def test_prose_stays_as_it_is():
    assert read_docstring("Adds.\n\n    Args are not a section here.\n\n    a: not a parameter\n") == (
        "Adds.\n\nArgs are not a section here.\n\na: not a parameter",
        {},
    )


def test_a_title_with_nothing_below_it_is_prose():
    assert read_docstring("Adds.\n\n    Args:\n") == ("Adds.\n\nArgs:", {})
    assert read_docstring("Adds.\n\n    Parameters\n") == ("Adds.\n\nParameters", {})


def test_a_docstring_may_begin_with_its_parameters():
    assert read_docstring("\n    Args:\n        a: One.\n    ") == ("", {"a": "One."})
    assert read_docstring(":param a: One.\n:param b: Two.") == ("", {"a": "One.", "b": "Two."})
    assert read_docstring("Parameters\n----------\na\n    One.") == ("", {"a": "One."})


def test_a_line_that_is_not_an_entry_continues_the_previous_one():
    assert read("X.\n\nArgs:\n    (nothing yet)\n    a: One.\n    and more - of it").parameters == {"a": "One. and more - of it"}


def test_prose_after_a_numpy_section_is_kept():
    found = read_docstring("X.\n\nParameters\n----------\na : int\n    One.\n\nAnd that was all, really.")
    assert found == ("X.\n\nAnd that was all, really.", {"a": "One."})


def test_attributes_of_a_class_are_read_like_parameters():
    assert read("A point.\n\nAttributes:\n    x: Across.\n").parameters == {"x": "Across."}
    assert read("A point.\n\n:ivar x: Across.\n").parameters == {"x": "Across."}


def test_a_parameter_without_text_is_omitted():
    assert read(":param a:\n:param b: Two.").parameters == {"b": "Two."}
