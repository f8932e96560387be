"""Blanks filled: what a model puts at each [MASK] of a text."""

from dataclasses import dataclass

import torch

from mlmdist.errors import ConfigError
from mlmdist.model.stream import Stream
from mlmdist.scoring.model import Scorer


@dataclass(frozen=True)
class Answer:
    """One candidate for one blank, as transformers' fill-mask pipeline gives it."""

    score: float
    """Probability."""

    token: int
    token_str: str
    sequence: str
    """The text with this blank filled; other blanks stay."""


@torch.no_grad()
def fill(scorer: Scorer, text: str, top_k: int = 5) -> list[list[Answer]]:
    """The `top_k` most probable answers for each blank of `text`, best first.

    Several blanks are filled one by one, as if the others stayed blank. Raises ConfigError if there
    is no blank or the text is too long for the model.
    """
    ids, segments = scorer.text.row(text)
    blanks = [place for place, token in enumerate(ids) if token == scorer.text.mask_id]
    _check(scorer, text, len(ids), len(blanks), top_k)
    logits = scorer.model(Stream.from_rows([(ids, segments)], blanks)).mlm_logits
    best = logits.softmax(-1).topk(top_k)
    return [
        [
            _answer(scorer, ids, place, score, token, is_single=len(blanks) == 1)
            for score, token in zip(scores, tokens, strict=True)
        ]
        for place, scores, tokens in zip(
            blanks, best.values.tolist(), best.indices.tolist(), strict=True
        )
    ]


def _answer(
    scorer: Scorer, ids: list[int], place: int, score: float, token: int, *, is_single: bool
) -> Answer:
    """Special tokens are shown where other blanks must be; padding never is."""
    filled = [*ids[:place], token, *ids[place + 1 :]]
    filled = [each for each in filled if each != scorer.text.pad_id]
    return Answer(
        score=score,
        token=token,
        token_str=scorer.text.decode([token], skip_special=False),
        sequence=scorer.text.decode(filled, skip_special=is_single),
    )


def _check(scorer: Scorer, text: str, num_tokens: int, num_blanks: int, top_k: int) -> None:
    most = scorer.model.config.max_positions
    if not num_blanks:
        raise ConfigError(f"{text[:60]!r}: no blank; write {scorer.text.mask} where one is")
    if num_tokens > most:
        raise ConfigError(
            f"the text has {num_tokens} tokens; this model reads at most {most}; "
            "shorten it around the blank"
        )
    if not 1 <= top_k <= scorer.model.vocab_size:
        raise ConfigError(f"--top-k {top_k}: must be from 1 to {scorer.model.vocab_size}")
