"""Whether two ways to cut a text into pieces are equally good, to rounding.

SentencePiece adds its scores in 32 bits and `tokenizers` in 64, so where two segmentations of a
text have the same score, each may choose another one. Nothing else excuses a difference.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from mlmdist.tokenizer import SentencePieceTokenizer
from mlmdist.tokenizer.sentence_piece import UNK_ID

ROUNDING = 2.0**-24  # of one 32-bit addition, relative to the sum
UNKNOWN = "\ufffd"


def is_tie(ours: Sequence[int], theirs: Sequence[int], tokenizer: SentencePieceTokenizer) -> bool:
    """Whether both id lists spell the same text, and wherever they differ score the same.

    In each stretch of text that they cut differently, the scores may differ by what 32-bit
    additions at that place of the text can lose, and no more.
    """
    stretches = list(_stretches(ours, theirs, tokenizer))
    return bool(stretches) and all(
        gap is not None and abs(gap) <= tolerance for gap, tolerance in stretches
    )


def _stretches(
    ours: Sequence[int], theirs: Sequence[int], tokenizer: SentencePieceTokenizer
) -> Iterator[tuple[float | None, float]]:
    """(score gap, tolerance) a stretch that differs; the gap is None if its texts do."""
    our_ends, their_ends = _ends(ours, tokenizer), _ends(theirs, tokenizer)
    if _text(ours, tokenizer) != _text(theirs, tokenizer):
        yield None, 0.0
        return
    shared = sorted(set(our_ends) & set(their_ends))
    a = b = 0
    total = 0.0
    for end in shared:
        next_a, next_b = our_ends.index(end, a) + 1, their_ends.index(end, b) + 1
        mine, other = ours[a:next_a], theirs[b:next_b]
        total += abs(score(mine, tokenizer))
        if list(mine) != list(other):
            additions = len(mine) + len(other)
            gap = score(mine, tokenizer) - score(other, tokenizer)
            yield (gap if _comparable(mine, other) else None), additions * ROUNDING * total
        a, b = next_a, next_b


def score(tokens: Sequence[int], tokenizer: SentencePieceTokenizer) -> float:
    """The sum of the pieces' scores (of a unigram model: log-probabilities, in nats)."""
    return sum(tokenizer.processor.get_score(int(token)) for token in tokens)


def _comparable(mine: Sequence[int], other: Sequence[int]) -> bool:
    """Whether scores tell: an unknown stretch has none."""
    return UNK_ID not in mine and UNK_ID not in other


def _ends(tokens: Sequence[int], tokenizer: SentencePieceTokenizer) -> list[int]:
    """Where each token ends, in characters of the text with one mark an unknown stretch."""
    return list(accumulate(len(_piece(token, tokenizer)) for token in tokens))


def _text(tokens: Sequence[int], tokenizer: SentencePieceTokenizer) -> str:
    return "".join(_piece(token, tokenizer) for token in tokens)


def _piece(token: int, tokenizer: SentencePieceTokenizer) -> str:
    return UNKNOWN if token == UNK_ID else tokenizer.pieces[token]
