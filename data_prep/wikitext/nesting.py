"""Brackets: which `{{`, `[[` and `{|` belong to which end, and the words each of them leaves.

Links without brackets inside are replaced first. Then a pass pairs the brackets on a stack, each
pushed and popped once; what finds no partner is plain text. Another pass walks the pairs and jumps
over those that show no words, so a page costs time in proportion to its length however its brackets
are nested or broken.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from data_prep.wikitext.links import (
    holds_paragraphs,
    link_words,
    shows_nothing,
    without_simple_links,
)
from data_prep.wikitext.markers import HOLE
from data_prep.wikitext.names import Names
from data_prep.wikitext.templates import template_shows_words, template_words

MAX_DEPTH = 20
"""Words of templates inside one another are followed so deep; below, they are dropped."""

_TOKEN = re.compile(r"\[\[(?!\[)|\]\]|\{\{+|\}\}+|\{\|(?!\})|\|\}(?!\})")
_BLANK_LINE = re.compile(r"\n[ \t]{0,20}(?=\n)")
TEMPLATE, PARAMETER, LINK, TABLE = "{{", "{{{", "[[", "{|"
_MAX_INDENT = 20


class Pair(NamedTuple):
    """Two brackets that belong together, as places in the text."""

    kind: str
    open_start: int
    open_end: int
    close_start: int
    close_end: int


def without_brackets(text: str, names: Names) -> str:
    """Wikitext without templates, links and tables: their words, or a hole where there are none."""
    text = "\n" + without_simple_links(text, names, HOLE)
    return _Walk(text, _pairs(text, names), names).words(0, len(text), 0)


def _pairs(text: str, names: Names) -> list[Pair]:
    """All pairs of brackets, sorted by the place where they open."""
    stack = _Stack(text, names)
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        mark = text[end - 2 : end]
        if mark in (LINK, TEMPLATE):
            stack.push(mark, start, end)
        elif mark == "]]":
            stack.close_link(start, end)
        elif mark == "}}":
            stack.close_braces(start, end)
        elif mark == TABLE:
            if (line := _line_start(text, start, " \t:*#")) >= 0:
                stack.push(TABLE, line, end)
        elif (line := _line_start(text, start, " \t")) >= 0:
            stack.close_table(line, end)
    return sorted(stack.pairs, key=attrgetter("open_start"))


def _line_start(text: str, place: int, indent: str) -> int:
    """Where the line of a place begins, its newline, if only indents are before it; else -1."""
    start = text.rfind("\n", max(0, place - _MAX_INDENT - 1), place)
    return start if start >= 0 and not text[start + 1 : place].strip(indent) else -1


class _Stack:
    """The brackets that are open, and the pairs that were closed."""

    def __init__(self, text: str, names: Names) -> None:
        self.text, self.names = text, names
        self.blank_lines = [match.start() for match in _BLANK_LINE.finditer(text)]
        self.pairs: list[Pair] = []
        self.open: list[tuple[str, int, int]] = []
        self.num_open = {TEMPLATE: 0, LINK: 0, TABLE: 0}
        self.top = ""
        """The kind of the innermost open bracket, the empty string where none is open."""

    def push(self, kind: str, start: int, end: int) -> None:
        """Open a bracket; a run of braces is one until its end says what it was."""
        self.open.append((kind, start, end))
        self.num_open[kind] += 1
        self.top = kind

    def pop(self) -> tuple[str, int, int]:
        """Take the innermost open bracket off."""
        self.num_open[self.top] -= 1
        bracket = self.open.pop()
        self.top = self.open[-1][0] if self.open else ""
        return bracket

    def close_table(self, start: int, end: int) -> None:
        """Pair the end of a table; what was open inside has no end and is plain text."""
        if not self.num_open[TABLE]:
            return
        while self.top != TABLE:
            self.pop()
        _, open_start, open_end = self.pop()
        self.pairs.append(Pair(TABLE, open_start, open_end, start, end))

    def close_link(self, start: int, end: int) -> None:
        """Pair the end of a link; only the caption of a file goes on over a blank line."""
        while self.top == LINK:
            _, open_start, open_end = self.pop()
            if not self._is_parted(open_end, start):
                self.pairs.append(Pair(LINK, open_start, open_end, start, end))
                break

    def _is_parted(self, start: int, end: int) -> bool:
        """True where a blank line stands in a link that opens no file."""
        place = bisect_left(self.blank_lines, start)
        return (
            place < len(self.blank_lines)
            and self.blank_lines[place] < end
            and not holds_paragraphs(self.text, start, self.names)
        )

    def close_braces(self, start: int, end: int) -> None:
        """Pair a run of braces with runs before it: by threes, else by twos, from the inside.

        A brace that is left over on either side of a pair goes with the pair.
        """
        while end - start >= 2 and self.num_open[TEMPLATE]:
            while self.top != TEMPLATE:
                self.pop()
            _, open_start, open_end = self.pop()
            size = 3 if min(end - start, open_end - open_start) >= 3 else 2
            close_end = end if end - start == size + 1 else start + size
            left_over = open_end - open_start - size
            if left_over > 1:
                self.push(TEMPLATE, open_start, open_end - size)
            at = open_end - size - (left_over == 1)
            kind = PARAMETER if size == 3 else TEMPLATE
            self.pairs.append(Pair(kind, at, open_end, start, close_end))
            start = close_end


class _Walk:
    """One page's pairs, in order, with the place up to which they have been used."""

    def __init__(self, text: str, pairs: list[Pair], names: Names) -> None:
        self.text, self.pairs, self.names, self.next = text, pairs, names, 0

    def words(self, start: int, end: int, depth: int) -> str:
        """The words between two places of the text."""
        pieces: list[str] = []
        for at, pair in self._children(start, end):
            pieces.append(self.text[at : pair.open_start])
            pieces.append(self._pair_words(pair, depth))
            start = pair.close_end
        pieces.append(self.text[start:end])
        return "".join(pieces)

    def _children(self, start: int, end: int) -> Iterator[tuple[int, Pair]]:
        """The outermost pairs between two places, each with the end of the pair before it."""
        while self.next < len(self.pairs) and self.pairs[self.next].open_start < end:
            pair = self.pairs[self.next]
            self.next += 1
            yield start, pair
            start = pair.close_end
            while self.next < len(self.pairs) and self.pairs[self.next].open_start < start:
                self.next += 1

    def _pair_words(self, pair: Pair, depth: int) -> str:
        """What a pair leaves in the text."""
        if pair.kind == LINK:
            return self._link_words(pair, depth)
        if pair.kind == TABLE:
            return "\n\n"
        if depth >= MAX_DEPTH:
            return HOLE
        if pair.kind == PARAMETER:  # a template's own text: the words where none is given
            return "".join(self._arguments(pair, depth)[1:2]) or HOLE
        if not template_shows_words(self._head(pair)):
            return HOLE
        return template_words(self._arguments(pair, depth), self.names.language)

    def _link_words(self, pair: Pair, depth: int) -> str:
        head = self._head(pair)
        if ":" in head and shows_nothing(head, self.names):
            return HOLE
        if self.next == len(self.pairs) or self.pairs[self.next].open_start >= pair.close_start:
            return link_words(self.text[pair.open_end : pair.close_start].split("|"))
        return link_words(self._arguments(pair, depth) if depth < MAX_DEPTH else [head])

    def _head(self, pair: Pair) -> str:
        """What stands before the first bar: a template's name or a link's target."""
        bar = self.text.find("|", pair.open_end, pair.close_start)
        return self.text[pair.open_end : bar if bar >= 0 else pair.close_start]

    def _arguments(self, pair: Pair, depth: int) -> list[str]:
        """What stands between the bars of a pair itself, the words of inner pairs put in."""
        parts: list[list[str]] = [[]]
        start = pair.open_end
        for at, child in self._children(pair.open_end, pair.close_start):
            self._split(self.text[at : child.open_start], parts)
            parts[-1].append(self._pair_words(child, depth + 1))
            start = child.close_end
        self._split(self.text[start : pair.close_start], parts)
        return ["".join(pieces) for pieces in parts]

    @staticmethod
    def _split(gap: str, parts: list[list[str]]) -> None:
        first, *rest = gap.split("|")
        parts[-1].append(first)
        parts += [[piece] for piece in rest]
