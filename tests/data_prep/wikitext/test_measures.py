"""Measures, against what Wikipedia's own `{{convert}}` shows for these calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.wikitext.measures import measure_words


def words(call: str, language: str = "") -> str:
    """The words of the arguments of a call, written as in a page."""
    parts = call.split("|")
    named = dict(part.split("=", 1) for part in parts if "=" in part)
    return measure_words([part for part in parts if "=" not in part], named, language)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("5|km|mi", "5 kilometres (3.1 mi)"),
        ("5|km", "5 kilometres (3.1 mi)"),
        ("1|mi|km", "1 mile (1.6 km)"),
        ("1300|mi|km", "1,300 miles (2,100 km)"),
        ("75|mi|km", "75 miles (121 km)"),
        ("70|kg|lb", "70 kilograms (150 lb)"),
        ("50|m|ft", "50 metres (160 ft)"),
        ("978|m|ft|0", "978 metres (3,209 ft)"),
        ("5|acre|ha", "5 acres (2.0 ha)"),
        ("10|km|mi|sp=us", "10 kilometers (6.2 mi)"),
        ("10|km|mi|adj=on", "10-kilometre (6.2 mi)"),
        ("10|km|mi|abbr=on", "10 km (6.2 mi)"),
        ("5|km|mi|abbr=off", "5 kilometres (3.1 miles)"),
        ("5|mi|km|order=flip", "8.0 kilometres (5 mi)"),
        ("1000|ft|m|disp=or", "1,000 feet or 300 m"),
        ("20|C|F", "20 °C (68 °F)"),
        ("-40|C", "−40 °C (−40 °F)"),
        ("0|C|F", "0 °C (32 °F)"),
        ("2.5|C-change|F-change", "2.5 °C (4.5 °F)"),
        ("60|to|170|kg|lb", "60 to 170 kilograms (130 to 370 lb)"),
        ("10|-|20|°C|°F", "10–20 °C (50–68 °F)"),
        ("5|x|10|m|ft", "5 by 10 metres (16 ft × 33 ft)"),
        ("6|ft|2|in|m", "6 feet 2 inches (1.88 m)"),
        ("6|ft|2|in|m|abbr=on", "6 ft 2 in (1.88 m)"),
        ("11|st|6|lb|kg", "11 stone 6 pounds (73 kg)"),
        ("1.85|m|ftin", "1.85 metres (6 ft 1 in)"),
        ("1/2|mi|km", "1/2 mile (0.80 km)"),
        ("5+1/2|in|mm", "5 1/2 inches (140 mm)"),
        ("200|nmi|km mi", "200 nautical miles (370 km; 230 mi)"),
        ("2.3|Moilbbl|m3", "2.3 million barrels (370,000 m³)"),
        ("100|PD/sqkm", "100 inhabitants per square kilometre (260/sq mi)"),
        ("300|hp|kW", "300 horsepower (220 kW)"),
        ("100|mph", "100 miles per hour (160 km/h)"),
        ("5|km|mi|sigfig=3", "5 kilometres (3.11 mi)"),
        ("5|km|mi|disp=output number only", "3.1"),
    ],
)
def test_measures_are_converted_as_on_the_page(call: str, expected: str) -> None:
    assert words(call) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("7|zork|km", "7 zork"),
        ("7|to|9|zork", "7 to 9 zork"),
        ("many|km|mi", "many"),
        ("5|km|kg", "5 kilometres"),
        ("5|km|zork", "5 kilometres"),
        ("5", "5"),
        ("", ""),
        ("1/0|km", "1/0"),
    ],
)
def test_what_cannot_be_converted_stays_as_given(call: str, expected: str) -> None:
    assert words(call) == expected


def test_measures_follow_the_language_of_the_wiki() -> None:
    assert words("5|km|mi", "zh") == "5公里（3.1英里）"
    assert words("5|km|mi", "de") == "5 km"


ARGUMENT = st.sampled_from(
    [
        "5",
        "0",
        "-1.5e9",
        "1/3",
        "",
        "km",
        "ft",
        "in",
        "C",
        "F",
        "to",
        "x",
        "-",
        "ftin",
        "mi nmi",
        "2",
    ]
)
NAMED = st.dictionaries(
    st.sampled_from(["abbr", "adj", "disp", "order", "sp", "sigfig"]),
    st.sampled_from(["on", "off", "flip", "us", "or", "9", "0", "x", ""]),
)


@given(st.lists(ARGUMENT, max_size=8), NAMED, st.sampled_from(["", "zh", "fr"]))
def test_any_call_shows_its_first_argument(
    positional: list[str], named: dict[str, str], language: str
) -> None:
    text = measure_words(positional, named, language)
    assert bool(text) == any(positional[:1]) or not positional[0]
