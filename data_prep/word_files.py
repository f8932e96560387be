"""The user's files of words: a dictionary for the segmenter, and a list of words with tags."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data_prep.normal_form import normalise
from mlmdist.errors import ConfigError

MAX_TAG = 255


@dataclass(frozen=True)
class WordList:
    """Tags by word: `any_case` for small and capital letters alike, `exact` as it is written."""

    exact: dict[str, int]
    any_case: dict[str, int]

    def tag(self, word: str) -> int:
        """The tag of a word, 0 if the list has none; a word as it is written comes first."""
        found = self.exact.get(word)
        return self.any_case.get(word.lower(), 0) if found is None else found


def read_word_list(path: Path) -> WordList:
    """The tags of a file of lines `word TAB tag`.

    A word without capitals stands for all its forms, one with a capital for itself. Raises
    ConfigError naming the line where the file is no such list.
    """
    exact: dict[str, int] = {}
    any_case: dict[str, int] = {}
    for place, line in _lines(path):
        word, tab, tag = line.partition("\t")
        word, tag = normalise(word), tag.strip()
        if not tab or not word or " " in word:
            raise ConfigError(f"{place}: {line!r} must be one word, a tab, and a tag")
        if not (tag.isascii() and tag.isdigit() and 1 <= int(tag) <= MAX_TAG):
            raise ConfigError(f"{place}: the tag {tag!r} must be a number from 1 to {MAX_TAG}")
        tags = any_case if word == word.lower() else exact
        if tags.setdefault(word, int(tag)) != int(tag):
            raise ConfigError(f"{place}: {word!r} has the tag {tags[word]} on an earlier line")
    return WordList(exact, any_case)


def read_dictionary(path: Path) -> list[tuple[str, int | None]]:
    """The words of a file, one a line, each with its frequency if one stands behind it.

    Raises ConfigError naming the line where the file is no such list.
    """
    words: list[tuple[str, int | None]] = []
    for place, line in _lines(path):
        word, *rest = line.split()
        frequency = rest[0] if rest else "1"
        if len(rest) > 1 or not (frequency.isascii() and frequency.isdigit() and int(frequency)):
            raise ConfigError(f"{place}: {line!r} must be a word, or a word and its frequency")
        words.append((normalise(word), int(frequency) if rest else None))
    return words


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line of a file that says something, with its place in words for an error."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    for number, line in enumerate(content.split(b"\n"), start=1):
        place = f"{path}, line {number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise ConfigError(f"{place}: is no UTF-8; save the file as UTF-8") from None
        if text.strip() and not text.startswith("#"):
            yield place, text
