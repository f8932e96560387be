"""What a tokenizer's ids are, and what it makes of texts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int32, Int64

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Their names, in the order of the ids 0 to 4 that a SentencePiece tokenizer of ours gives them."""

NUM_SPECIAL_POSITIONS = 3  # of the longest row: [CLS] A [SEP] B [SEP]
META_NAME = "meta.json"


@dataclass(frozen=True)
class Vocabulary:
    """The ids: how many, which are special, and which may stand in for a masked token."""

    size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    special_ids: tuple[int, ...]
    drawable: Int64[np.ndarray, "ids"]
    """Ids of ordinary pieces, ascending: what a random replacement is drawn from (law M1)."""

    @property
    def special_names(self) -> dict[str, int]:
        """The special ids by the names of their tokens, such as "[PAD]": 0."""
        ids = (self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id)
        return dict(zip(SPECIAL_TOKENS, ids, strict=True))

    @property
    def never_in_text(self) -> tuple[int, ...]:
        """Ids that no text gives: all special ones but [UNK], which stands for a character."""
        return tuple(token for token in self.special_ids if token != self.unk_id)


def make_vocabulary(
    size: int, special: dict[str, int], not_drawable: Int64[np.ndarray, "left_out"]
) -> Vocabulary:
    """The vocabulary of `size` ids with the five special ids of `special`, by name.

    A random word is none of these and none of `not_drawable`.
    """
    ids = [special[name] for name in SPECIAL_TOKENS]
    drawable = np.ones(size, dtype=np.bool_)
    drawable[ids] = False
    drawable[not_drawable] = False
    return Vocabulary(size, *ids, special_ids=tuple(ids), drawable=np.flatnonzero(drawable))


@dataclass(frozen=True)
class Encoded:
    """Texts as tokens, end to end; text i has tokens `ptr[i]` to `ptr[i + 1]`."""

    tokens: Int32[np.ndarray, "total"]
    char_end: Int[np.ndarray, "total"]
    """Where each token ends, in characters of all the texts joined; 32 bits where they do."""

    ptr: Int64[np.ndarray, "texts_plus_1"]
