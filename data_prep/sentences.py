"""Where sentences end inside paragraphs, in any script.

`sentencex` knows the marks and abbreviations; this module keeps it linear and mends four of its
habits: it is quadratic on long texts, lets an unclosed quote swallow what follows, splits behind
abbreviations that a number or a small letter follows, and does not know scripts without marks.

Paragraphs are taken many at a time, joined: sentencex is asked once, arrays tell most ends from
places that are none, and only those behind short words and numbers are looked at one by one.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import sentencex
from jaxtyping import Bool, Int64

from data_prep.characters import (
    ALPHANUMERIC,
    CAPITAL,
    CLOSER,
    CLOSING_MARKS,
    CYRILLIC,
    DIGIT,
    DOT,
    LOWER,
    OPENER,
    PAIRED,
    RARE_END,
    SEPARATOR,
    SPACED,
    Joined,
)
from data_prep.quotes import HARMLESS, without_open_quotes

PIECE_CHARACTERS = 4000
"""sentencex is given no longer text: its time grows with the square of a text without "\\n\\n"."""

BATCH_CHARACTERS = 100_000
"""Characters of paragraphs, or a little more, that are looked at together."""

MAX_QUOTED_CHARACTERS = 300
"""A longer sentence is looked into again as if its quotes and brackets were none."""

MIN_SPACED_CHARACTERS = 40
"""Thai and Lao space phrases, Tibetan marks them: one longer than this ends a sentence."""

MYANMAR_COMMA = 0x104A
"""sentencex ends a sentence at it."""

_QUOTE_OR_BRACKET = re.compile("[\"'“”„‘’«»「」『』《》()\\[\\]（）【】]")
_CLOSERS = re.compile(f"[{re.escape(CLOSING_MARKS)}]{{1,3}}(?![A-Za-z0-9])")
_BRACKETED = re.compile(r"[(\[][^()\[\]]{10,}[.!?][)\]](?= +[^\W\d_a-z])")
_OTHER_END = re.compile("[\u17d4\u17d5\u0f0e]+(?=\\s|\\w)|\u1361\u1361")
_SPACE_BETWEEN = re.compile("(?<=[\u0e00-\u0eff]) +(?=[\u0e00-\u0eff])|(?<=\u0f0d) +")

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
_LAST_CHARACTERS = 16
_SHORT_WORD = 4  # characters of the longest word of _RANK, _INITIAL, _SHORT_CYRILLIC and _DAY


def ends(paragraph: str) -> list[int]:
    """The places just behind each sentence, without the spaces that follow it, in order.

    The last is `len(paragraph)`; an empty paragraph has none. Nothing is lost: the text between two
    ends is a sentence with the spaces before it. The time grows linearly with the paragraph.
    """
    return [*inner_ends([paragraph]).tolist(), len(paragraph)] if paragraph else []


def inner_ends(paragraphs: Sequence[str]) -> Int64[np.ndarray, "ends"]:
    """The places where sentences of `paragraphs` end, but for each paragraph's own end, ascending.

    Places count the characters of all paragraphs, end to end. An end depends on its paragraph
    alone; many at once take less time.
    """
    found = [np.empty(0, np.int64)]
    base = 0
    for batch in _batches(paragraphs):
        found.append(_ends_of_batch(batch) + base)
        base += sum(map(len, batch))
    return np.concatenate(found)


def _batches(paragraphs: Sequence[str]) -> Iterator[list[str]]:
    """The paragraphs that are not empty, in runs of about BATCH_CHARACTERS."""
    batch: list[str] = []
    size = 0
    for paragraph in filter(None, paragraphs):
        batch.append(paragraph)
        size += len(paragraph)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _ends_of_batch(paragraphs: list[str]) -> Int64[np.ndarray, "ends"]:
    """The inner ends of paragraphs, in characters of them end to end."""
    texts = [text.replace("\n", " ") if "\n" in text else text for text in paragraphs]
    joined = Joined.of(texts)
    places = _kept(joined, _candidates(joined, texts))
    return places - joined.number(places) * len(SEPARATOR)


def _candidates(joined: Joined, texts: list[str]) -> Int64[np.ndarray, "places"]:
    """The places of the joined texts at which a sentence may end, ascending.

    A long text goes piece by piece, since a piece starts where the one before tells; all long texts
    of a batch go together.
    """
    if max(map(len, texts)) <= PIECE_CHARACTERS:
        return _ends_of_pieces(joined, texts)
    found = [np.empty(0, np.int64)]
    numbers = np.arange(len(texts))
    at = np.zeros(len(texts), np.int64)
    while len(numbers):
        pieces, more = _pieces(texts, numbers, at)
        here = Joined.of(pieces)
        places = _ends_of_pieces(here, pieces)
        piece = here.number(places - 1)
        content = here.starts + [len(text.rstrip()) for text in pieces]
        inner = ~more[piece] | (places < content[piece])
        places, piece = places[inner], piece[inner]
        offsets = places - here.starts[piece]
        found.append((joined.starts[numbers] + at)[piece] + offsets)
        next_at = np.zeros(len(pieces), np.int64)
        np.maximum.at(next_at, piece, offsets)
        # The last sentence is cut, so it is read again, unless that would read much again.
        for early in np.flatnonzero(more & (next_at <= PIECE_CHARACTERS // 2)).tolist():
            next_at[early] = _cut(pieces[early])
        numbers, at = numbers[more], (at + next_at)[more]
    return _unique(np.concatenate(found))


def _pieces(
    texts: list[str], numbers: Int64[np.ndarray, "pieces"], at: Int64[np.ndarray, "pieces"]
) -> tuple[list[str], Bool[np.ndarray, "pieces"]]:
    """A piece of each text `numbers`, from `at` on, and whether more of the text follows it."""
    pairs = list(zip(numbers.tolist(), at.tolist(), strict=True))
    pieces = [texts[number][first : first + PIECE_CHARACTERS] for number, first in pairs]
    more = [len(texts[number]) - first > PIECE_CHARACTERS for number, first in pairs]
    return pieces, np.array(more, np.bool_)


def _cut(piece: str) -> int:
    """Where a piece without a late end is cut: behind its last space, if that is not early."""
    space = piece.rfind(" ") + 1
    return space if space > len(piece) // 2 else len(piece)


def _ends_of_pieces(joined: Joined, pieces: list[str]) -> Int64[np.ndarray, "places"]:
    """The ends that short texts have by themselves, their own last ones among them."""
    places = _segment_ends(joined, pieces)
    holds = np.bitwise_or.reduce(joined.holds)
    if holds & RARE_END:
        others = [match.end() for match in _OTHER_END.finditer(joined.text)]
        places = _with(places, others)
    places = _behind_closers(joined, places)
    if holds & SPACED:
        places = _spaced_ends(joined, places)
    return _with_bracketed(joined, places)


def _segment_ends(joined: Joined, pieces: list[str]) -> Int64[np.ndarray, "places"]:
    """The ends that sentencex sees, also inside long sentences if it saw no quotes there."""
    languages = ["ru" if cyrillic else "en" for cyrillic in (joined.holds & CYRILLIC).tolist()]
    places = _ask(without_open_quotes(joined, pieces), languages, joined.starts)
    number = joined.number(places - 1)
    begins = np.maximum(np.append(0, places[:-1]), joined.starts[number])
    long = (places - begins > MAX_QUOTED_CHARACTERS) & (joined.holds[number] & PAIRED > 0)
    texts, starts, spoken = [], [], []
    for index in np.flatnonzero(long).tolist():
        span = slice(begins[index], places[index])
        texts.append(_QUOTE_OR_BRACKET.sub(HARMLESS, joined.text[span]))
        starts.append(begins[index])
        spoken.append("ru" if np.any(joined.kinds[span] & CYRILLIC) else "en")
    return _with(places, _ask(texts, spoken, np.array(starts, np.int64)))


def _ask(
    texts: list[str], languages: list[str], starts: Int64[np.ndarray, "texts"]
) -> Int64[np.ndarray, "places"]:
    """The end of each sentence that sentencex sees in texts which begin at `starts`."""
    found = [np.empty(0, np.int64)]
    first = 0
    for language, group in groupby(languages):
        run = texts[first : first + len(list(group))]
        sentences = sentencex.segment(  # pyright: ignore[reportAttributeAccessIssue]
            language, SEPARATOR.join(run)
        )
        # It gives the separators as sentences, but forgets some of them.
        stops = np.cumsum([len(each) for each in sentences if each != SEPARATOR])
        sizes = np.fromiter(map(len, run), np.int64, len(run))
        bases = np.cumsum(sizes) - sizes
        assert stops[-1] == bases[-1] + sizes[-1], "sentencex loses nothing"
        number = np.searchsorted(bases, stops - 1, "right") - 1
        found.append(stops - bases[number] + starts[first + number])
        first += len(run)
    return np.concatenate(found)


def _behind_closers(
    joined: Joined, places: Int64[np.ndarray, "places"]
) -> Int64[np.ndarray, "fewer"]:
    """Ends without the spaces before them, moved behind quotes and brackets that close there."""
    first = joined.starts[joined.number(places - 1)]
    moved = joined.before_spaces(places)
    places = moved[moved > first]
    for index in np.flatnonzero(joined.kinds[places] & CLOSER).tolist():
        if match := _CLOSERS.match(joined.text, int(places[index])):
            places[index] = match.end()
    return _unique(places)


def _spaced_ends(joined: Joined, places: Int64[np.ndarray, "places"]) -> Int64[np.ndarray, "more"]:
    """The ends and, in scripts that part phrases and not sentences, spaces far enough apart."""
    spaces = [match.start() for match in _SPACE_BETWEEN.finditer(joined.text)]
    certain, starts = set(places.tolist()), set(joined.starts.tolist())
    kept: list[int] = []
    last = 0
    for place in sorted({*spaces, *certain, *starts}):
        if place in starts:
            last = place
        elif place in certain or place - last >= MIN_SPACED_CHARACTERS:
            kept.append(place)
            last = place
    return np.array(kept, np.int64)


def _with_bracketed(
    joined: Joined, places: Int64[np.ndarray, "places"]
) -> Int64[np.ndarray, "more"]:
    """The ends and those behind a sentence in brackets, as in `(It is one.) Here is another`."""
    starts = joined.behind_spaces(np.concatenate([joined.starts, places]))
    starts = _unique(starts[joined.kinds[starts] & OPENER > 0])
    stops = joined.stops[joined.number(starts)]
    found = [
        match.end()
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        if (match := _BRACKETED.match(joined.text, start, stop))
    ]
    return _with(places, found)


def _kept(joined: Joined, places: Int64[np.ndarray, "places"]) -> Int64[np.ndarray, "fewer"]:
    """The places that are ends, seen from what stands on both sides, but for the texts' own."""
    kinds, number = joined.kinds, joined.number(places - 1)
    behind = joined.behind_spaces(places)
    inside = behind < joined.stops[number]
    places, behind, number = places[inside], behind[inside], number[inside]
    small = kinds[behind] & LOWER > 0
    keep = joined.codes[places - 1] != MYANMAR_COMMA
    keep[small] &= ~_cased(joined, number[small])
    gaps = np.minimum(np.diff(places, prepend=0), places - joined.starts[number])
    doubtful = (gaps <= _LAST_CHARACTERS) | (kinds[behind] & DIGIT > 0) | _short(joined, places)
    doubtful &= keep & (kinds[places - 1] & DOT > 0)
    # The end before: the last certain one, or the last doubtful one that was found to be one.
    certain = np.where(keep & ~doubtful, places, 0)
    before = np.maximum.accumulate(np.append(0, certain))
    last = 0
    for index in np.flatnonzero(doubtful).tolist():
        start = max(int(joined.starts[number[index]]), int(before[index]), last)
        place = int(places[index])
        keep[index] = not _goes_on(joined.text, start, place, int(behind[index]))
        last = place if keep[index] else last
    return places[keep]


def _cased(joined: Joined, numbers: Int64[np.ndarray, "places"]) -> Bool[np.ndarray, "places"]:
    """Whether each of some texts has capital letters, so that a small one starts no sentence."""
    cased = {}
    for number in numbers.tolist():
        if number not in cased:
            text = joined.text[joined.starts[number] : joined.stops[number]]
            cased[number] = text != text.lower()
    return np.array([cased[number] for number in numbers.tolist()], np.bool_)


def _short(joined: Joined, places: Int64[np.ndarray, "places"]) -> Bool[np.ndarray, "places"]:
    """Whether a short word stands before the last character: Cyrillic, or a name or number."""
    short = np.zeros(len(places), np.bool_)
    for size in range(1, _SHORT_WORD + 1):
        first = joined.kinds[places - 1 - size] & (CAPITAL | DIGIT | CYRILLIC) > 0
        short |= first & (joined.kinds[places - 2 - size] & ALPHANUMERIC == 0)
    return short


def _goes_on(text: str, start: int, place: int, behind: int) -> bool:
    """True where a sentence from `start` goes on at `behind` over the dot or bracket at `place`."""
    tail = text[max(start, place - _LAST_CHARACTERS) : place]
    if place - start <= 5 and _ENUMERATOR.match(tail.strip()):
        return True
    if text[behind].isdigit():
        return bool(_COUNTED.search(tail))
    if _RANK.search(tail) or _INITIAL.search(tail) or _SHORT_CYRILLIC.search(tail):
        return True
    return bool(_DAY.search(tail) and _COUNTED_WORD.match(text, behind))


def _with(
    places: Int64[np.ndarray, "places"], more: Sequence[int] | Int64[np.ndarray, "more"]
) -> Int64[np.ndarray, "union"]:
    """The places of both, ascending."""
    return _unique(np.concatenate([places, np.array(more, np.int64)])) if len(more) else places


def _unique(places: Int64[np.ndarray, "places"]) -> Int64[np.ndarray, "fewer"]:
    """The places ascending, each once (np.unique makes a hash table, which takes longer)."""
    places = np.sort(places)
    return places[np.diff(places, prepend=-1) > 0]
