"""Traditional Chinese to simplified, by OpenCC."""

import unicodedata
from functools import cache
from importlib.util import find_spec
from typing import Any

from mlmdist.errors import ConfigError


def check_simplified() -> None:
    """Raise ConfigError if OpenCC is not installed."""
    if find_spec("opencc") is None:
        raise ConfigError(
            "to_simplified needs opencc: pip install 'mlmdist[chinese]', or leave it out"
        )


def simplified(paragraphs: tuple[str, ...]) -> tuple[str, ...]:
    """The paragraphs in normal form, each in simplified characters and still in normal form.

    OpenCC's `t2s` turns characters and, where one stands for several, whole words; it leaves the
    words of Taiwan and Hong Kong as they are. Text of other scripts stays as it is, but so does not
    Japanese, whose older characters it takes for Chinese.
    """
    if all(map(str.isascii, paragraphs)):
        return paragraphs
    converted = _converter().convert("\n".join(paragraphs))
    return tuple(unicodedata.normalize("NFKC", converted).split("\n"))


@cache
def _converter() -> Any:
    import opencc

    return opencc.OpenCC("t2s")
