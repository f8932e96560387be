"""Brackets: which `{{`, `[[` and `{|` belong to which end, and the words each of them leaves.

A first pass pairs the brackets on a stack, each pushed and popped once; what finds no partner is
plain text. A second pass walks the pairs and jumps over those that show no words, so a page costs
time in proportion to its length however its brackets are nested or broken.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from data_prep.wikitext.links import holds_paragraphs, link_words, shows_nothing
from data_prep.wikitext.markers import HOLE
from data_prep.wikitext.names import Names
from data_prep.wikitext.templates import template_shows_words, template_words

MAX_DEPTH = 20
"""Words of templates inside one another are followed so deep; below, they are dropped."""

_TOKEN = re.compile(
    r"\{\{(?!\{)|\}\}|\[\[(?!\[)|\]\]|\n[ \t:*#]{0,20}\{\|(?!\})"
    r"|\n[ \t]{0,20}\|\}(?!\})|\n[ \t]{0,20}(?=\n)"
)
TEMPLATE, LINK, TABLE = "{{", "[[", "{|"
_OPENING = {"}}": TEMPLATE, "]]": LINK, "|}": TABLE}


@dataclass(frozen=True)
class Pair:
    """Two brackets that belong together, as places in the text."""

    kind: str
    open_start: int
    open_end: int
    close_start: int
    close_end: int


def without_brackets(text: str, names: Names) -> str:
    """Wikitext without templates, links and tables: their words, or a hole where there are none."""
    text = "\n" + text
    return _Walk(text, _pairs(text, names), names).words(0, len(text), 0)


def _pairs(text: str, names: Names) -> list[Pair]:
    """All pairs of brackets, sorted by the place where they open."""
    pairs: list[Pair] = []
    stack: list[tuple[str, re.Match[str]]] = []
    num_open = {TEMPLATE: 0, LINK: 0, TABLE: 0}

    def pop() -> tuple[str, re.Match[str]]:
        kind, opening = stack.pop()
        num_open[kind] -= 1
        return kind, opening

    def spans_paragraphs(opening: re.Match[str]) -> bool:
        return holds_paragraphs(text, opening, names)

    for token in _TOKEN.finditer(text):
        mark = token[0][-2:]
        if mark in num_open:
            stack.append((mark, token))
            num_open[mark] += 1
        elif mark not in _OPENING:  # a blank line: no link but a caption goes on over it
            while stack and stack[-1][0] == LINK and not spans_paragraphs(stack[-1][1]):
                pop()
        elif num_open[kind := _OPENING[mark]] and (kind != LINK or stack[-1][0] == LINK):
            while stack[-1][0] != kind:
                pop()
            opening = pop()[1]
            pairs.append(Pair(kind, *opening.span(), *token.span()))
    return sorted(pairs, key=lambda pair: pair.open_start)


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
        if pair.kind == TABLE:
            return "\n\n"
        head = self._head(pair)
        if pair.kind == TEMPLATE:
            if depth >= MAX_DEPTH or not template_shows_words(head):
                return HOLE
            return template_words(head, self._arguments(pair, depth))
        if shows_nothing(head, self.names):
            return HOLE
        parts = self._arguments(pair, depth) if depth < MAX_DEPTH else [head]
        return link_words(parts)

    def _head(self, pair: Pair) -> str:
        """What stands before the first bar: a template's name or a link's target."""
        bar = self.text.find("|", pair.open_end, pair.close_start)
        return self.text[pair.open_end : bar if bar >= 0 else pair.close_start]

    def _arguments(self, pair: Pair, depth: int) -> list[str]:
        """What stands between the bars of a pair itself, the words of inner pairs put in."""
        parts = [""]
        start = pair.open_end
        for at, child in self._children(pair.open_end, pair.close_start):
            self._split(self.text[at : child.open_start], parts)
            parts[-1] += self._pair_words(child, depth + 1)
            start = child.close_end
        self._split(self.text[start : pair.close_start], parts)
        return parts

    @staticmethod
    def _split(gap: str, parts: list[str]) -> None:
        first, *rest = gap.split("|")
        parts[-1] += first
        parts += rest
