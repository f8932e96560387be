"""A trained model as a Hugging Face directory that is there whole and checked, or not at all."""

import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch

from mlmdist.errors import ConfigError
from mlmdist.export import lines as check_lines
from mlmdist.export.tokenizer_json import tokenizer_json
from mlmdist.files import TEMPORARY_MARK, sha256, sync_folder
from mlmdist.model.bert import Bert
from mlmdist.model.directory import CONFIG_NAME, WEIGHTS_NAME, to_config
from mlmdist.model.huggingface import to_huggingface
from mlmdist.scoring.run import find_checkpoint, open_run
from mlmdist.tokenizer import SPECIAL_TOKENS, SentencePieceTokenizer, Tokenizer, tokenizer_files
from mlmdist.train.record import RECORD

log = logging.getLogger(__name__)

ORIGIN_NAME = "mlmdist.json"
READABLE = 0o644  # safetensors makes its file for the owner alone


def export(source: Path, out: Path, *, lines: Path | None = None, overwrite: bool = False) -> bool:
    """Write the checkpoint, or the newest of a run, to the directory `out`; False if it is there.

    It is loaded with transformers and compared with the trained model first: logits, and token ids
    on fixed probes and on `lines` (a text file; default: the run's held-out windows). If anything
    differs this raises DataError and leaves nothing. Raises ConfigError if `out` is in the way. An
    export of this very checkpoint that is there already is left as it is.
    """
    run, checkpoint = find_checkpoint(source)
    origin = _origin(run, checkpoint)
    if _origin_of(out) == origin:
        log.info("%s is the export of %s already: skipped", out, checkpoint)
        return False
    check_free(out, overwrite=overwrite)
    trained = open_run(source)
    log.info("exporting %s to %s", checkpoint, out)
    text = (
        check_lines.from_file(lines)
        if lines
        else check_lines.from_shards(trained.config.data, trained.tokenizer)
    )
    write(trained.model, trained.tokenizer, out, text, overwrite=overwrite, origin=origin)
    return True


def write(
    model: Bert,
    tokenizer: Tokenizer,
    out: Path,
    lines: Sequence[str],
    *,
    overwrite: bool = False,
    origin: dict[str, str] | None = None,
) -> None:
    """Write, check and only then name the directory `out`; see `export`.

    `origin`, which says where the weights come from, is kept beside them.
    """
    from mlmdist.export.checks import check_ids, check_logits, rows_of  # imports transformers

    check_free(out, overwrite=overwrite)
    lines = [*check_lines.PROBES, *lines]
    with _temporary_beside(out) as folder:
        _fill(folder, model, tokenizer)
        check_ids(folder, tokenizer, lines)
        check_logits(folder, model, rows_of(tokenizer, lines, model.config.max_positions))
        if origin:
            _write_json(folder / ORIGIN_NAME, origin)
        _make_durable(folder)
        _put_in_place(folder, out)


def _origin(run: Path, checkpoint: Path) -> dict[str, str]:
    """What tells one checkpoint from every other."""
    record = sha256(checkpoint / RECORD)
    return {"run": run.resolve().name, "checkpoint": checkpoint.name, "record_sha256": record}


def _origin_of(out: Path) -> Any:
    """What the export in `out` was made of; None if that is not there to be read."""
    try:
        return _read_json(out / ORIGIN_NAME)
    except (OSError, ValueError):
        return None


def check_free(out: Path, *, overwrite: bool) -> None:
    """Raise ConfigError if something stands at `out` that may not be replaced."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not overwrite:
        raise ConfigError(f"{out}: already there; give another directory, or --overwrite")
    if not (out / CONFIG_NAME).is_file():
        raise ConfigError(f"{out}: no earlier export (no {CONFIG_NAME}), so it is not overwritten")


@contextmanager
def _temporary_beside(out: Path) -> Iterator[Path]:
    """A folder on the file system of `out`, gone at the end unless renamed away."""
    folder = out.with_name(f"{out.name}{TEMPORARY_MARK}{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for left_over in out.parent.glob(f"{out.name}{TEMPORARY_MARK}*"):
            shutil.rmtree(left_over)
        folder.mkdir()
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written ({error.strerror}); name another") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path, model: Bert, tokenizer: Tokenizer) -> None:
    """The files themselves."""
    weights = to_huggingface(model.state_dict())
    safetensors.torch.save_file(weights, folder / WEIGHTS_NAME, metadata={"format": "pt"})
    _write_json(folder / CONFIG_NAME, to_config(model.config, model.vocab_size))
    if isinstance(tokenizer, SentencePieceTokenizer):
        _write_json(folder / "tokenizer.json", tokenizer_json(tokenizer))
        _write_json(folder / "tokenizer_config.json", _tokenizer_config(model.config.max_positions))
        return
    for name, data in tokenizer_files(tokenizer).items():
        (folder / name).write_bytes(data)


def _tokenizer_config(max_positions: int) -> dict[str, Any]:
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_positions,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        **dict(zip(names, SPECIAL_TOKENS, strict=True)),
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _make_durable(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(READABLE)
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


def _put_in_place(folder: Path, out: Path) -> None:
    """Rename; an earlier export steps aside first and comes back if that fails."""
    aside = out.with_name(f"{out.name}.old-{os.getpid()}")
    if out.exists():
        out.replace(aside)
    try:
        folder.replace(out)
    except OSError:
        if aside.exists():
            aside.replace(out)
        raise
    sync_folder(out.parent)
    shutil.rmtree(aside, ignore_errors=True)
