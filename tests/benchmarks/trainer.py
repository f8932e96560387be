"""transformers' Trainer on the rows of a run of ours, masked by its own collator."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForPreTraining,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.export.tokenizer_json import tokenizer_json
from mlmdist.tokenizer import SentencePieceTokenizer, load_tokenizer
from tests.benchmarks.whole import THREADS, Curve, padded, rows_of


def train(recipe: Path, precision: str) -> Curve:
    """The curve of their Trainer on the run that `recipe` describes."""
    torch.set_num_threads(THREADS)
    config = load(Pretrain, recipe, [])
    rows, held_out = rows_of(config)
    tokenizer = _tokenizer(config)
    model = BertForPreTraining(_shape(config, len(tokenizer)))
    clock = Clock(model, held_out, config.every.evaluate)
    steps = config.train.steps or 0
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=config.train.global_batch,
            learning_rate=config.optimizer.learning_rate,
            weight_decay=config.optimizer.weight_decay,
            warmup_steps=config.schedule.num_warmup_steps(steps),
            max_grad_norm=config.optimizer.clip,
            optim="adamw_torch_fused",
            bf16=precision == "bf16",
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_steps=10,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=rows,  # pyright: ignore[reportArgumentType]
            data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
            callbacks=[clock],
        )
        trainer.train()
    tokens = sum(len(row["input_ids"]) for row in rows)
    return Curve(clock.seconds, clock.losses, tokens / steps)


class Clock(TrainerCallback):
    """Notes when each step is done, and looks at the held-out rows with the clock stopped."""

    def __init__(self, model: Any, held_out: list[Any], every: int) -> None:
        self.model, self.held_out, self.every = model, held_out, every
        self.seconds: list[float] = []
        self.losses: dict[int, float] = {}
        self.begin = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begin = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.seconds.append(time.perf_counter() - self.begin)
        if state.global_step % self.every == 0 or state.global_step == args.max_steps:
            stopped = time.perf_counter()
            self.losses[state.global_step] = self._look()
            self.begin += time.perf_counter() - stopped

    @torch.no_grad()
    def _look(self) -> float:
        """The held-out MLM loss over all masked tokens."""
        self.model.eval()
        total, count = 0.0, 0
        for batch in self.held_out:
            for table in padded(batch):
                given = {name: torch.from_numpy(value) for name, value in table.items()}
                labels = given.pop("labels")
                given.pop("next_sentence_label")
                logits = self.model(**given).prediction_logits[labels != -100]
                wanted = labels[labels != -100]
                total += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
                count += len(wanted)
        self.model.train()
        return total / count


def _shape(config: Pretrain, vocab_size: int) -> BertConfig:
    model = config.model
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=model.width,
        num_hidden_layers=model.num_layers,
        num_attention_heads=model.num_heads,
        intermediate_size=model.feed_forward_width,
        max_position_embeddings=model.max_positions,
        initializer_range=model.initializer_range,
    )


def _tokenizer(config: Pretrain) -> PreTrainedTokenizerFast:
    import json

    from tokenizers import Tokenizer

    tokenizer = load_tokenizer(config.data.tokenizer)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer))),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
