"""What a tokenizer does to its text: what it does not know, how finely it cuts, what it wastes."""

import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int64

from data_prep.documents import Document
from mlmdist.rng import hash64
from mlmdist.tokenizer import Encoded, Tokenizer

log = logging.getLogger(__name__)

SAMPLE_CHARS = 20_000_000
SAMPLE_PARTS = 16
BATCH_CHARS = 1_000_000
LISTED = 20
SHARE_UNIT = 1 << 32


@dataclass
class _Counts:
    """What is added up over the sample; characters are bounded by Unicode, pieces by the ids."""

    used: Int64[np.ndarray, "ids"]
    documents: int = 0
    chars: int = 0
    words: int = 0
    unknown_chars: Counter[str] = field(default_factory=Counter)


def choose_parts(num_parts: int) -> list[int]:
    """The numbers of the files of documents that the sample comes from, ascending."""
    by_hash = sorted(range(num_parts), key=lambda part: (hash64("tokenizer.report", part), part))
    return sorted(by_hash[:SAMPLE_PARTS])


def report(tokenizer: Tokenizer, documents: Iterable[Document], num_chars: int) -> dict[str, Any]:
    """Figures over a sample of the documents (`num_chars` characters in all), chosen by hash.

    The same documents and tokenizer give the same report. Its fields:

    - `sample`: documents, chars, words, tokens. A word is what whole-word masking masks.
    - `unknown`: the share of tokens that are [UNK]; the characters behind them that the vocabulary
      lacks, most frequent first, with code point and name; what share of all characters they are.
    - `tokens_per_word`, `tokens_per_char`
    - `bytes`: the share of tokens that spell single bytes of unknown characters.
    - `unused`: ordinary pieces that the sample never needs: number, share of all, the first few.
    - `pieces`: how many there are, how many are one character, and the longest.
    """
    counts = _Counts(used=np.zeros(tokenizer.vocabulary.size, dtype=np.int64))
    chosen_below = SHARE_UNIT * min(SAMPLE_CHARS, num_chars) // max(num_chars, 1)
    for texts in _batches(_sampled(documents, chosen_below, counts), tokenizer):
        _count(texts, tokenizer, counts)
    made = _figures(tokenizer, counts)
    log.info(
        "tokenizer: %.3f tokens a word, %.3f a character, %.4f %% unknown%s; %.1f %% of the pieces "
        "unused in a sample of %d characters",
        made["tokens_per_word"],
        made["tokens_per_char"],
        100 * made["unknown"]["share_of_tokens"],
        _named(made["unknown"]["most_frequent"]),
        100 * made["unused"]["share"],
        counts.chars,
    )
    return made


def _named(unknown: list[dict[str, Any]]) -> str:
    first = ", ".join(f"{each['code_point']} {each['name']}" for each in unknown[:3])
    return f" (most of all {first})" if first else ""


def _sampled(
    documents: Iterable[Document], chosen_below: int, counts: _Counts
) -> Iterator[Document]:
    for document in documents:
        if hash64("tokenizer.report", document.id) % SHARE_UNIT < chosen_below:
            counts.documents += 1
            yield document


def _batches(documents: Iterable[Document], tokenizer: Tokenizer) -> Iterator[list[str]]:
    """The paragraphs, normalised, in runs of about BATCH_CHARS."""
    batch: list[str] = []
    chars = 0
    for document in documents:
        for paragraph in document.paragraphs:
            batch.append(tokenizer.normalize(paragraph))
            chars += len(batch[-1])
            if chars >= BATCH_CHARS:
                yield batch
                batch, chars = [], 0
    if batch:
        yield batch


def _count(texts: list[str], tokenizer: Tokenizer, counts: _Counts) -> None:
    encoded = tokenizer.encode_with_ends(texts)
    counts.used += np.bincount(encoded.tokens, minlength=len(counts.used))
    counts.chars += sum(map(len, texts))
    counts.words += int(tokenizer.word_starts(encoded.tokens, encoded.ptr).sum())
    counts.unknown_chars.update(_unknown_stretches("".join(texts), encoded, tokenizer))


def _unknown_stretches(joined: str, encoded: Encoded, tokenizer: Tokenizer) -> Iterator[str]:
    """Every character of the text that an [UNK] covers."""
    places = np.flatnonzero(encoded.tokens == tokenizer.vocabulary.unk_id)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), encoded.char_end])[places]
    for start, stop in zip(starts.tolist(), encoded.char_end[places].tolist(), strict=True):
        yield from joined[start:stop].replace(" ", "")


def _figures(tokenizer: Tokenizer, counts: _Counts) -> dict[str, Any]:
    vocabulary = tokenizer.vocabulary
    tokens = int(counts.used.sum())
    lacking = Counter(
        {char: n for char, n in counts.unknown_chars.items() if _is_lacking(char, tokenizer)}
    )
    frequent = sorted(lacking, key=lambda char: (-lacking[char], char))[:LISTED]
    unused = vocabulary.drawable[counts.used[vocabulary.drawable] == 0]
    is_byte = np.char.startswith(np.array(tokenizer.pieces), "<0x")
    is_byte[vocabulary.drawable] = False
    shown = [tokenizer.surfaces[token] for token in vocabulary.drawable.tolist()]
    longest = sorted(set(shown), key=lambda text: (-len(text), text))[:LISTED]
    return {
        "sample": {
            "documents": counts.documents,
            "chars": counts.chars,
            "words": counts.words,
            "tokens": tokens,
        },
        "unknown": {
            "share_of_tokens": _ratio(int(counts.used[vocabulary.unk_id]), tokens),
            "share_of_chars": _ratio(sum(lacking.values()), counts.chars),
            "different_chars": len(lacking),
            "most_frequent": [_described(char, lacking[char]) for char in frequent],
        },
        "tokens_per_word": _ratio(tokens, counts.words),
        "tokens_per_char": _ratio(tokens, counts.chars),
        "bytes": {"share_of_tokens": _ratio(int(counts.used[is_byte].sum()), tokens)},
        "unused": {
            "count": len(unused),
            "share": _ratio(len(unused), len(vocabulary.drawable)),
            "examples": [tokenizer.pieces[token] for token in unused[:LISTED].tolist()],
        },
        "pieces": {
            "count": vocabulary.size,
            "single_characters": sum(len(text) == 1 for text in shown),
            "longest": longest,
        },
    }


def _is_lacking(char: str, tokenizer: Tokenizer) -> bool:
    """Whether the character alone is unknown: a word may be [UNK] for one of its characters."""
    return tokenizer.vocabulary.unk_id in tokenizer.encode([char])[0]


def _described(char: str, count: int) -> dict[str, Any]:
    name = unicodedata.name(char, "unnamed").lower()
    return {"character": char, "code_point": f"U+{ord(char):04X}", "name": name, "count": count}


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
