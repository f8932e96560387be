"""What DeepSpeed is told of a run; no DeepSpeed."""

from typing import Any

from mlmdist.config.pretrain import Pretrain
from mlmdist.config.train import Train
from mlmdist.train import loss_scale

BUCKET_ELEMENTS = 50_000_000  # the largest tensor of BERT-large, its embedding, has 31 M


def deepspeed_config(
    config: Pretrain, accumulation: int, *, num_parameters: int, has_gpu: bool = False
) -> dict[str, Any]:
    """The configuration for a model of so many parameters.

    Clipping is written even when it is 0: its own default is 1.0. The loss scale is constant for
    DeepSpeed, and set anew before each step (loss_scale.py).
    """
    train, bucket = config.train, min(num_parameters, BUCKET_ELEMENTS)
    return {
        "train_micro_batch_size_per_gpu": train.micro_batch,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": config.optimizer.clip,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": train.precision == "bf16"},
        "fp16": {"enabled": train.precision == "fp16", "loss_scale": loss_scale.FIRST},
        "zero_optimization": {
            "stage": train.zero_stage,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
            "use_multi_rank_bucket_allreduce": has_gpu,  # on the CPU: to the owner alone (gloo.py)
            **_offload(train, has_gpu=has_gpu),
        },
    }


def _offload(train: Train, *, has_gpu: bool) -> dict[str, Any]:
    """Where fp32 weights and optimizer state are, if they are not with the model.

    torch's own AdamW updates them there: DeepSpeed's needs a compiler, which a killed process can
    lock for ever, and takes the same steps.
    """
    if train.offload == "none":
        return {}
    return {"offload_optimizer": {"device": "cpu", "pin_memory": has_gpu}}
