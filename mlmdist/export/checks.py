"""What an exported directory must show before it counts: the same logits and the same ids."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertForPreTraining
from transformers.utils import logging as their_logging

from mlmdist.errors import DataError
from mlmdist.export.ties import is_tie
from mlmdist.model.bert import Bert
from mlmdist.model.stream import Stream
from mlmdist.tokenizer import SentencePieceTokenizer, Tokenizer

log = logging.getLogger(__name__)

MAX_ROWS = 8
MAX_LOGIT_GAP = 1e-9
"""Of the largest logit, both sides in 64 bits: about a million times their rounding."""


def check_ids(folder: Path, tokenizer: Tokenizer, lines: Sequence[str]) -> int:
    """How many of the lines have other ids, all of them exact ties, in the directory's tokenizer.

    Text is read as text on both sides, "[MASK]" too (law W3). Raises DataError at a line whose ids
    differ without a tie, which only a unigram model can have.
    """
    theirs = load_tokenizer(folder)
    answers = theirs(
        list(lines), add_special_tokens=False, split_special_tokens=True, verbose=False
    )["input_ids"]
    num_ties = 0
    for line, ours, other in zip(lines, tokenizer.encode(lines), answers, strict=True):
        if ours == other:
            continue
        if not _is_tie(ours, other, tokenizer):
            raise DataError(_difference(line, ours, other, tokenizer))
        num_ties += 1
    log.info("token ids equal ours on %d lines (%d exact ties)", len(lines), num_ties)
    return num_ties


def _is_tie(ours: Sequence[int], other: Sequence[int], tokenizer: Tokenizer) -> bool:
    return (
        isinstance(tokenizer, SentencePieceTokenizer)
        and tokenizer.is_unigram
        and is_tie(ours, other, tokenizer)
    )


def check_logits(folder: Path, model: Bert, rows: Sequence[Sequence[int]]) -> float:
    """The largest gap between the logits of transformers' model in `folder` and ours, relative.

    Both compute in 64 bits, padded rows there and the bare stream here. Raises DataError if a
    weight is missing or left over, or the gap is more than rounding.
    """
    with quiet():
        loaded: Any = BertForPreTraining.from_pretrained(
            folder, dtype=torch.float64, output_loading_info=True, local_files_only=True
        )
    theirs, report = loaded
    wrong = {kind: names for kind, names in report.items() if names}
    if wrong:
        raise DataError(f"{folder}: transformers finds other weights than it wants: {wrong}")
    ours = Bert(model.config, model.vocab_size).double().eval()
    ours.load_state_dict(model.state_dict())
    gap = _gap(theirs.eval(), ours, [_segmented(row) for row in rows[:MAX_ROWS]])
    if not gap <= MAX_LOGIT_GAP:
        raise DataError(
            f"{folder}: transformers' logits differ from ours by {gap:.1e} of the largest; must be "
            f"at most {MAX_LOGIT_GAP:.0e}: this is a fault of the export, please report it"
        )
    log.info("logits equal transformers' to %.1e of the largest, in 64 bits", gap)
    return gap


def rows_of(tokenizer: Tokenizer, lines: Sequence[str], max_positions: int) -> list[list[int]]:
    """[CLS] A B [SEP] of neighbouring lines: a few rows of different lengths that fit the model."""
    tokens = tokenizer.encode(lines[: MAX_ROWS + 1])
    cls_id, sep_id = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    rows = [[cls_id, *(a + b)[: max_positions - 2], sep_id] for a, b in pairwise(tokens)]
    return [*rows, [cls_id, sep_id]]


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer that anyone gets from the directory with transformers."""
    with quiet():
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and remarks away while it loads; its settings are put back."""
    level, bar = their_logging.get_verbosity(), their_logging.is_progress_bar_enabled()
    their_logging.set_verbosity_error()
    their_logging.disable_progress_bar()
    try:
        yield
    finally:
        their_logging.set_verbosity(level)
        if bar:
            their_logging.enable_progress_bar()


def _segmented(row: Sequence[int]) -> tuple[Sequence[int], list[int]]:
    """The row with its second half in segment 1."""
    half = len(row) // 2
    return row, [0] * half + [1] * (len(row) - half)


@torch.no_grad()
def _gap(
    theirs: BertForPreTraining, ours: Bert, rows: list[tuple[Sequence[int], list[int]]]
) -> float:
    """Largest difference of any logit at any token, over the largest logit."""
    total = sum(len(ids) for ids, _ in rows)
    heads = ours(Stream.from_rows(rows, range(total)))
    ids, segments, is_token = _padded(rows)
    expected = theirs(input_ids=ids, token_type_ids=segments, attention_mask=is_token.long())
    mlm = expected.prediction_logits[is_token]
    gaps = (
        (heads.mlm_logits - mlm).abs().max(),
        (heads.pair_logits - expected.seq_relationship_logits).abs().max(),
    )
    return max(float(gap) for gap in gaps) / float(mlm.abs().max())


def _padded(rows: list[tuple[Sequence[int], list[int]]]) -> tuple[torch.Tensor, ...]:
    """(ids, segments, which places hold tokens), each [rows, length]."""
    columns = [[ids for ids, _ in rows], [row for _, row in rows], [[1] * len(i) for i, _ in rows]]
    ids, segments, is_token = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in column], batch_first=True)
        for column in columns
    )
    return ids, segments, is_token.bool()


def _difference(line: str, ours: list[int], other: list[int], tokenizer: Tokenizer) -> str:
    """The first place where two id lists part, for a person to read."""
    pairs = zip(ours, other, strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(other)))
    mine, their = (
        [tokenizer.pieces[token] for token in ids[place : place + 6]] for ids in (ours, other)
    )
    return (
        f"tokenizer.json cuts {line[:60]!r} otherwise than ours from token {place} on: "
        f"{their} for {mine}, and not because they score the same; nothing was exported"
    )
