"""A published BERT's weights in the model of a run: another vocabulary, longer rows, missing heads.

Position embeddings past the old ones repeat them from the first on (Beltagy et al. 2020, section
5): what a head has learnt of neighbours holds everywhere but at the seams.
"""

import logging
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import DataError
from mlmdist.model.bert import Bert
from mlmdist.model.huggingface import Loaded, load, their_name
from mlmdist.tokenizer import Tokenizer
from mlmdist.train.old_vocabulary import Origins, origins, read_old_vocabulary

log = logging.getLogger(__name__)

TOKENS, POSITIONS = "embeddings.tokens.weight", "embeddings.positions.weight"
DECODER_BIAS = "mlm_head.bias"
HEADS = {"mlm_head": "language model head", "pair_head": "head of the second task"}


def begin(model: Bert, config: Pretrain, tokenizer: Tokenizer) -> None:
    """Put the weights of `config.init_from` into `model`; heads that they lack stay as drawn.

    Raises DataError if the directory is not a whole BERT, or its tokenizer cannot be read.
    """
    assert config.init_from is not None
    folder = config.init_from.path
    loaded = load(folder, config.seed)
    state = {
        name: value
        for name, value in loaded.model.state_dict().items()
        if name not in loaded.missing
    }
    rows = _origins(tokenizer, folder, loaded.model.vocab_size)
    for name in (TOKENS, DECODER_BIAS):
        if name in state:
            state[name] = by_origin(state[name], rows)
    state[POSITIONS] = repeated(state[POSITIONS], config.model.max_positions)
    model.load_state_dict(state, strict=False)
    _tell(config, loaded, rows)


def _origins(tokenizer: Tokenizer, folder: Path, num_rows: int) -> Origins:
    old = read_old_vocabulary(folder)
    if old.num_rows > num_rows:
        raise DataError(
            f"{folder}: its tokenizer has {old.num_rows} ids, its embedding {num_rows} rows; one "
            "of them belongs to another model"
        )
    return origins(tokenizer, old)


@torch.no_grad()
def by_origin(old: Tensor, origin: Origins) -> Tensor:
    """The rows (or biases) of the new vocabulary, each the mean of the old ones it comes from."""
    table = old.float().reshape(len(old), -1)  # [old ids, width]
    lengths = torch.tensor([len(row) for row in origin.rows])
    flat = torch.tensor([token for row in origin.rows for token in row], dtype=torch.int64)
    made = functional.embedding_bag(flat, table, lengths.cumsum(0) - lengths, mode="mean")
    made[lengths == 0] = table[origin.ordinary].mean(0)
    return made.reshape(len(lengths), *old.shape[1:])


def repeated(
    old: Float[Tensor, "old_positions width"], num_positions: int
) -> Float[Tensor, "positions width"]:
    """The old rows, and again from the first on for those behind them."""
    return old[torch.arange(num_positions) % len(old)]


def _tell(config: Pretrain, loaded: Loaded, rows: Origins) -> None:
    """Say what came from the directory and what did not."""
    assert config.init_from is not None
    path, old_positions = config.init_from.path, loaded.model.config.max_positions
    for part, name in HEADS.items():
        lacking = [their_name(each) for each in loaded.missing if each.startswith(f"{part}.")]
        parts = ", ".join(sorted({".".join(each.split(".")[:2]) for each in lacking}))
        said = (
            f"begins at random: the directory ships no {parts}" if parts else "is taken from there"
        )
        log.info("%s: the %s %s", path, name, said)
    if rows.is_identity(loaded.model.vocab_size):
        log.info("%s: the vocabulary is the same", path)
    else:
        log.info(
            "%s: another vocabulary: %d rows copied, %d start at the mean of their old pieces, %d "
            "at the mean of all",
            path,
            rows.num_copied,
            rows.num_means,
            rows.num_unknown,
        )
    if config.model.max_positions > old_positions:
        log.info("%s: positions from %d on repeat the first ones", path, old_positions)
    if any(name.startswith("mlm_head.") for name in loaded.missing) and (
        config.init_from.embeddings_only_steps
    ):
        log.warning(
            "init_from.embeddings_only_steps: a random language model head stands still too"
        )
