"""Paragraphs out of lines: each line, or what stands between blank lines."""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Literal

_HAN_AND_KANA = (  # with the punctuation of both, and full-width forms
    "\u2e80-\u312f\u31a0-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uffef"
    "\U0001f200-\U0001f2ff\U00020000-\U0003ffff"
)
_JOINED_WITHOUT_SPACE = re.compile(f"(?<=[{_HAN_AND_KANA}])\n(?=[{_HAN_AND_KANA}])")

Mode = Literal["line", "blank_line"]


def paragraphs_of(text: str, mode: Mode) -> tuple[str, ...]:
    """The paragraphs of a text; see `joined_lines`."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return joined_lines(text.split("\n"), mode)


def joined_lines(lines: Iterable[str], mode: Mode) -> tuple[str, ...]:
    """The paragraphs that hold anything but spaces.

    `blank_line` joins the lines between blank lines with a space, or with nothing where Han or
    kana stand on both sides, as these scripts write no spaces.
    """
    if mode == "line":
        return tuple(line for line in lines if _is_filled(line))
    runs = groupby(lines, key=_is_filled)
    return tuple(_joined(list(run)) for filled, run in runs if filled)


def _is_filled(line: str) -> bool:
    return bool(line) and not line.isspace()


def _joined(lines: list[str]) -> str:
    """The lines as one paragraph."""
    if len(lines) == 1:
        return lines[0]
    text = _JOINED_WITHOUT_SPACE.sub("", "\n".join(line.strip() for line in lines))
    return text.replace("\n", " ")
