"""Numbers with uncertainty and equations, as people write them."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.discovery import equation_text, undetermined, with_uncertainty


@pytest.mark.parametrize(
    "value, sd, text",
    [
        (0.0998, 0.0004, "0.0998(4)"),
        (0.09984, 0.00042, "0.0998(4)"),
        (1.002, 0.006, "1.002(6)"),
        (-1.002, 0.006, "-1.002(6)"),
        (0.5, 0.1, "0.5(1)"),
        (1.0, 0.25, "1.0(2)"),
        (25.0, 1.0, "25(1)"),
        (25.4, 3.0, "25(3)"),
        (1234.5, 12.0, "1230(10)"),
        (-1234.5, 250.0, "-1200(200)"),
        (7.0, 40.0, "10(40)"),
        (1.23456e8, 2e5, "123500000(200000)"),
        (1e-9, 3e-11, "0.00000000100(3)"),
        (0.0, 0.02, "0.00(2)"),
    ],
)
def test_the_value_to_the_digit_of_its_standard_deviation(value, sd, text):
    assert with_uncertainty(value, sd) == text


@pytest.mark.parametrize(
    "value, sd, text",
    [
        (0.1, 0.00996, "0.10(1)"),
        (0.1, 0.0951, "0.1(1)"),
        (0.123, 0.00999999, "0.12(1)"),
        (3.2, 0.96, "3(1)"),
        (321.0, 9.6, "320(10)"),
        (321.0, 96.0, "300(100)"),
        (0.1, 0.0094, "0.100(9)"),
    ],
)
def test_a_standard_deviation_just_below_a_power_of_ten_moves_one_place(value, sd, text):
    assert with_uncertainty(value, sd) == text


@pytest.mark.parametrize("place", range(-12, 6))
@pytest.mark.parametrize("digit", range(1, 10))
def test_the_text_is_the_number_within_half_of_its_last_digit(place, digit):
    """Read back: value within half a unit of the last place, sd as given."""
    value, sd = 7.3456789, digit * 10.0**place
    number, bracket = with_uncertainty(value, sd).rstrip(")").split("(")
    decimals = len(number.split(".")[1]) if "." in number else 0
    assert abs(float(number) - value) <= 0.5 * 10.0**place * (1 + 1e-9)
    assert float(bracket) * 10.0**-decimals == pytest.approx(sd)


@pytest.mark.parametrize("sd", [0.0, np.nan, np.inf, -1.0])
def test_without_a_standard_deviation_the_value_stands_alone(sd):
    assert with_uncertainty(0.1234567891, sd) == "0.123457"
    assert with_uncertainty(-25.0, sd) == "-25"


def test_an_equation_with_signs():
    text = equation_text(
        ("laplacian(u)", "u*dx(u)", "u"), np.array([0.0998, -1.002, 2.0]), np.array([4e-4, 6e-3, 0.1]), ["u"]
    )
    assert text == "u_t = 0.0998(4) laplacian(u) − 1.002(6) u*dx(u) + 2.0(1) u"


def test_an_equation_that_begins_with_a_minus():
    assert equation_text(("u",), np.array([-0.5]), np.array([0.02]), ["u"]) == "u_t = − 0.50(2) u"


def test_one_line_per_field_without_the_name_of_the_equation():
    names = ("u: laplacian(u)", "v: u", "uv: u", "u: v")
    text = equation_text(names, np.array([1.0, -2.0, 3.0, 4.0]), np.full(4, 0.1), ["u", "v", "uv", "w"])
    assert text.splitlines() == [
        "u_t = 1.0(1) laplacian(u) + 4.0(1) v",
        "v_t = − 2.0(1) u",
        "uv_t = 3.0(1) u",
        "w_t = 0",
    ]


def test_a_coefficient_that_may_be_zero_is_undetermined_with_its_interval():
    text = equation_text(("u", "u**2"), np.array([0.3, -120.0]), np.array([0.01, 20_000.0]), ["u"])
    assert text == "u_t = 0.30(1) u + undetermined[−3.9e+04, 3.9e+04] u**2"
    kept = equation_text(("u",), np.array([-0.5]), np.array([0.3]), ["u"], intervals=np.array([[-1.0, -0.01]]))
    assert kept == "u_t = − 0.5(3) u"  # of a law that is cut off at zero


@pytest.mark.parametrize("interval", [(0.0, 1.0), (-2.0, -1.0), (-1.0, 0.0)])
def test_an_interval_that_ends_at_zero_is_determined(interval):
    assert undetermined(*interval) == ""


def test_coefficients_in_si_units_have_powers_of_ten():
    names, theta, sd = ("u", "laplacian(u)", "u**2"), np.array([-1.5, 9.13e-17, 4.56e7]), np.array([0.1, 2e-18, 3e5])
    text = equation_text(names, theta, sd, ["u"])
    assert text == "u_t = − 1.5(1) u + 9.1(2)e-17 laplacian(u) + 4.56(3)e7 u**2"
