"""Numbers in short form, such as 200M."""

from __future__ import annotations

import pytest

from repro.amounts import short


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (0.25, "0.25"),
        (999, "999"),
        (999.7, "1.00k"),
        (12345, "12.3k"),
        (999600, "1.00M"),
        (2e9, "2.00G"),
        (3e12, "3000G"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_three_digits(number, text):
    assert short(number) == text


def test_letters_and_zeros_are_the_callers_choice():
    assert short(1e6, "kMB", padded=False) == "1M"
    assert short(2e9, "kMB", padded=False) == "2B"
