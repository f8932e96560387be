"""A micro-batch as the model takes it, and its losses as the engine adds them up."""

import numpy as np
import torch
from torch import Tensor

from mlmdist.data.batch import MicroBatch
from mlmdist.model.loss import LossSums
from mlmdist.model.stream import Stream


def to_stream(micro_batch: MicroBatch) -> Stream:
    """The model's input of a micro-batch, on the CPU; no copy is made."""
    cu_lengths = micro_batch.cu_lengths
    return Stream(
        tokens=torch.from_numpy(micro_batch.tokens),
        segments=torch.from_numpy(micro_batch.segments),
        positions=torch.from_numpy(micro_batch.positions),
        cu_lengths=torch.from_numpy(cu_lengths),
        max_length=int(np.diff(cu_lengths).max()),
        masked_index=torch.from_numpy(micro_batch.masked_index),
        labels=torch.from_numpy(micro_batch.labels),
        pair_labels=torch.from_numpy(micro_batch.pair_labels),
    )


def as_vector(losses: LossSums) -> Tensor:
    """The six sums as one fp64 vector without gradient."""
    return torch.stack([value.detach().double() for value in losses])
