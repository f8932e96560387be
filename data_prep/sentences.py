"""Where sentences end inside a paragraph, in any script.

`sentencex` knows the marks and abbreviations; this module keeps it linear and mends four of its
habits: it is quadratic on long texts, lets an unclosed quote swallow what follows, splits behind
abbreviations that a number or a small letter follows, and does not know scripts without marks.
"""

import re
from itertools import pairwise

import sentencex

PIECE_CHARACTERS = 4000
"""sentencex is given no more at once: its time grows with the square of that, not of the text."""

MAX_QUOTED_CHARACTERS = 300
"""A longer sentence is looked into again as if its quotes and brackets were none."""

MIN_SPACED_CHARACTERS = 40
"""Thai and Lao space phrases, Tibetan marks them: one longer than this ends a sentence."""

_CLOSED_BY = {'"': '"', "“": "”", "„": "“”", "«": "»", "「": "」", "『": "』", "《": "》"}
_QUOTE = re.compile('["“”„«»「」『』《》]')
_OPENS = re.compile(r"(?:(?<=[\s(\[—–])|(?<!.))\"(?=\S)", re.DOTALL)
_HARMLESS = "_"
_NO_QUOTES = str.maketrans(dict.fromkeys("\"'“”„‘’«»「」『』《》()[]（）【】", _HARMLESS))
_CLOSERS = re.compile(r"[\"'”’»」』》)\]）】]{1,3}(?![A-Za-z0-9])")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")

# Words behind which a dot is no end: all of them with a number behind, months behind a day, ...
_COUNTED = re.compile(
    r"(?:\A|[\s(])(?:vols?|nos?|pp?|figs?|chs?|chap|secs?|arts?|eqs?|ca?|approx|cf|eds?|tab|ex|op|nr|"
    r"bd|abb|kap|abs|num|núm|pág|стр|рис|гл|табл|т|с|г|ст|п)\.\Z",
    re.IGNORECASE,
)
_DAY = re.compile(r"(?:\A|\s)[0-9]{1,2}\.\Z")
_COUNTED_WORD = re.compile(
    r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|"
    r"Jahrhundert|Jh|Jahrtausend|Auflage|Bundesstaat|Platz|Klasse|Lebensjahr|Spieltag)\b"
)
_INITIAL = re.compile(r"(?:\A|[\s(.])[А-ЯЁ]\.\Z")
_SHORT_CYRILLIC = re.compile(r"(?:\A|\s)(?:г|ул|пр|см|т\. ?е|т\. ?к|им|проф|акад|св|др|в|ок)\.\Z")
_ENUMERATOR = re.compile(r"\(?(?:[0-9]{1,3}|[A-Za-z])[.)]\Z")
_RANK = re.compile(r"(?:\A|\s)(?:Lt|Maj|Col|Gen|Brig|Sgt|Capt|Cmdr|Adm|Rev|Hon|Fr|Pvt|Cpl)\.\Z")
_BRACKETED = re.compile(r"[(\[][^()\[\]]{10,}[.!?][)\]](?= +[^\W\d_a-z])")
_OTHER_END = re.compile(r"[។៕༎]+(?=\s|\w)|፡፡")
_THAI_OR_LAO = "[\u0e00-\u0eff]"
_SPACE_BETWEEN = re.compile(rf"(?<={_THAI_OR_LAO}) +(?={_THAI_OR_LAO})|(?<=།) +")
_LAST_CHARACTERS = 16


def ends(paragraph: str) -> list[int]:
    """The places just behind each sentence, without the spaces that follow it, in order.

    The last is `len(paragraph)`; an empty paragraph has none. Nothing is lost: the text between two
    ends is a sentence with the spaces before it. The time grows linearly with the paragraph.
    """
    found: list[int] = []
    at = 0
    while len(paragraph) - at > PIECE_CHARACTERS:
        piece = paragraph[at : at + PIECE_CHARACTERS]
        inner = [end for end in _piece_ends(piece) if end < len(piece.rstrip())]
        found += [at + end for end in inner]
        # The last sentence is cut, so it is read again, unless that would read much again.
        at += inner[-1] if inner and inner[-1] > len(piece) // 2 else _cut(piece)
    found += [at + end for end in _piece_ends(paragraph[at:])]
    return _joined(paragraph, found)


def _cut(piece: str) -> int:
    """Where a piece without a late end is cut: behind its last space, if that is not early."""
    space = piece.rfind(" ") + 1
    return space if space > len(piece) // 2 else len(piece)


def _piece_ends(piece: str) -> list[int]:
    """The ends that a short text has by itself, its own last one among them."""
    if not piece.strip():
        return [len(piece)] if piece else []
    places = {0}
    for start, end in _segments(0, _without_open_quotes(piece)):
        if end - start > MAX_QUOTED_CHARACTERS:
            hidden = piece[start:end].translate(_NO_QUOTES)
            places.update(place for _, place in _segments(start, hidden))
        places.add(end)
    places.update(match.end() for match in _OTHER_END.finditer(piece))
    stripped = sorted({_behind_closers(piece, place) for place in places} - {0})
    return _bracketed_ends(piece, _spaced_ends(piece, stripped))


def _behind_closers(piece: str, place: int) -> int:
    """An end without the spaces before it, moved behind quotes and brackets that close there."""
    while place and piece[place - 1].isspace():
        place -= 1
    closers = _CLOSERS.match(piece, place)
    return closers.end() if closers else place


def _segments(offset: int, text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence that sentencex sees in a text that begins at `offset`."""
    language = "ru" if _CYRILLIC.search(text) else "en"
    places = [offset]
    for sentence in sentencex.segment(language, text):  # pyright: ignore[reportAttributeAccessIssue]
        places.append(places[-1] + len(sentence))
    assert places[-1] == offset + len(text), "sentencex loses nothing"
    return list(pairwise(places))


def _without_open_quotes(piece: str) -> str:
    """The text with the quotes that open or close nothing made harmless.

    A quote that opens while one of its kind is open shows that the earlier one was never closed.
    """
    opened: dict[str, int] = {}
    alone: list[int] = []
    for match in _QUOTE.finditer(piece):
        mark, place = match[0], match.start()
        closed = [opening for opening in opened if mark in _CLOSED_BY[opening]]
        if closed and not (mark == '"' and _OPENS.match(piece, place)):
            del opened[closed[-1]]
        elif mark in _CLOSED_BY:
            alone += [opened[mark]] if mark in opened else []
            opened[mark] = place
        else:
            alone.append(place)
    characters = list(piece)
    for place in (*alone, *opened.values()):
        characters[place] = _HARMLESS
    return "".join(characters)


def _spaced_ends(piece: str, places: list[int]) -> list[int]:
    """The ends and, in scripts that part phrases and not sentences, spaces far enough apart."""
    spaces = [match.start() for match in _SPACE_BETWEEN.finditer(piece)]
    if not spaces:
        return places
    kept: list[int] = []
    last, certain = 0, set(places)
    for place in sorted({*spaces, *places}):
        if place in certain or place - last >= MIN_SPACED_CHARACTERS:
            kept.append(place)
            last = place
    return kept


def _bracketed_ends(piece: str, places: list[int]) -> list[int]:
    """The ends and those behind a sentence in brackets, as in `(It is one.) Here is another`."""
    found = set(places)
    for start in (0, *places):
        while piece[start : start + 1] == " ":
            start += 1
        if match := _BRACKETED.match(piece, start):
            found.add(match.end())
    return sorted(found)


def _joined(paragraph: str, places: list[int]) -> list[int]:
    """The ends without those that are none, seen from what stands on both sides."""
    kept: list[int] = []
    last = 0
    cased = paragraph != paragraph.lower()
    for place in places:
        if place < len(paragraph) and _is_no_end(paragraph, last, place, cased):
            continue
        if place > last:
            kept.append(place)
            last = place
    if kept and not paragraph[kept[-1] :].strip():
        kept.pop()  # only spaces follow: they belong to the last sentence
    return [*kept, len(paragraph)] if paragraph else []


def _is_no_end(paragraph: str, start: int, place: int, cased: bool) -> bool:
    """True where a sentence goes on over a place that sentencex took for its end."""
    behind = paragraph[place : place + _LAST_CHARACTERS].lstrip()
    if not behind:
        return True
    if cased and behind[0].islower():
        return True
    if paragraph[place - 1] not in ".)":
        return False
    tail = paragraph[max(start, place - _LAST_CHARACTERS) : place]
    if place - start <= 5 and _ENUMERATOR.match(tail.strip()):
        return True
    if behind[0].isdigit():
        return bool(_COUNTED.search(tail))
    if _RANK.search(tail) or _INITIAL.search(tail) or _SHORT_CYRILLIC.search(tail):
        return True
    return bool(_DAY.search(tail) and _COUNTED_WORD.match(behind))
