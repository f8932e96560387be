import pytest

from data_prep.wikitext.holes import mended
from data_prep.wikitext.markers import HOLE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rome (_; _) is old", "Rome is old"),
        ("Rome (_, the city) is old", "Rome (the city) is old"),
        ("Rome (the city; _) is old", "Rome (the city) is old"),
        ("so _, it went _.", "so, it went."),
        ("a _ b", "a b"),
        ("a_b", "ab"),
        ("one, _, two", "one, two"),
        ("_ Rome", "Rome"),
        ("cost $_ in all", "cost in all"),
        ("f() and g[]_ stay", "f() and g[] stay"),
        ("__ , __", ""),
    ],
)
def test_what_a_hole_leaves_over_is_mended(text: str, expected: str) -> None:
    assert mended(text.replace("_", HOLE)) == expected
