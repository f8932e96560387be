"""Runs that begin from a Hugging Face directory: shape, step 0, identity, resume to the bit."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from launch import pretrain
from mlmdist.config.loading import load
from mlmdist.config.model import Model
from mlmdist.config.pretrain import Pretrain
from mlmdist.dist import Place
from mlmdist.errors import BAD_CONFIG, DONE, ConfigError, DataError
from mlmdist.export.tokenizer_json import tokenizer_json
from mlmdist.model.bert import Bert
from mlmdist.model.directory import to_config
from mlmdist.model.huggingface import to_huggingface
from mlmdist.train import command, init_from
from mlmdist.train.checkpoint import load_weights
from mlmdist.train.identity import of_config, refuse_changes
from mlmdist.train.optimizer import EMBEDDINGS
from mlmdist.train.record import Record
from tests.export.corpus import train
from tests.train import rows
from tests.train.corpus import NUM_PIECES, recipe, write_recipe
from tests.train.jobs import before_step, exit_codes, run
from tests.train.ranks import on_ranks
from tests.train.runs import LAST, assert_same_state, job_of
from tests.train.test_engine import STAGES, Case, build, masters
from tests.train.test_resume import KILLED, die, metrics

SHAPE = Model(num_layers=2, width=32, num_heads=2, max_positions=20, initializer_range=0.1)
EMBEDDINGS_ONLY = 5


def write_bert(folder: Path, seed: int = 5, *, heads: bool = True) -> Path:
    """A Hugging Face directory of the corpus's tokenizer, with rows too short for the corpus."""
    folder.mkdir(parents=True)
    state = Bert(SHAPE, NUM_PIECES, seed).state_dict()
    tensors = to_huggingface({n: v for n, v in state.items() if heads or "head" not in n})
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(to_config(SHAPE, NUM_PIECES)))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(train("unigram"))))
    return folder


def job(folder: Path, corpus: Path, bert: Path, **sections: Any) -> Path:
    """The recipe of a run that begins from `bert`; of the model it sets the longer rows alone."""
    path = job_of(
        folder, corpus, init_from={"path": bert} | sections.pop("init_from", {}), **sections
    )
    lines = path.read_text().split("\n")
    begin = lines.index("model:")
    end = next(n for n in range(begin + 1, len(lines)) if not lines[n].startswith(" "))
    path.write_text("\n".join([*lines[:begin], "model: {max_positions: 32}", *lines[end:]]))
    return path


@pytest.mark.dist
@pytest.mark.slow
def test_a_run_from_a_directory_is_measured_at_step_0_and_resumes_to_the_bit(
    corpus: Path, tmp_path: Path
) -> None:
    bert = write_bert(tmp_path / "bert")
    sections = {
        "init_from": {"embeddings_only_steps": EMBEDDINGS_ONLY},
        "every": {"log": 3, "evaluate": 4, "save": 3},
    }
    whole, parts = (job(tmp_path / name, corpus, bert, **sections) for name in ("whole", "parts"))
    early = run(2, whole, fault=before_step(1, die))  # before there is a checkpoint
    assert exit_codes(early) == [KILLED, KILLED], early.output()
    straight = run(2, whole)
    assert exit_codes(straight) == [DONE, DONE], straight.output()
    killed = run(2, parts, fault=before_step(4, die))  # inside the embeddings' own steps
    assert exit_codes(killed) == [KILLED, KILLED], killed.output()
    assert metrics(parts.parent / "run")[0]["step"] == 0
    shutil.move(bert, tmp_path / "elsewhere")
    resumed = run(2, parts)
    assert exit_codes(resumed) == [DONE, DONE], resumed.output()
    assert "resumed at step 3" in resumed.log(0)
    assert "bert is gone; its weights are in the checkpoint" in resumed.log(0)
    folders = [one.parent / "run" for one in (whole, parts)]
    assert_same_state(*(folder / "checkpoints" / LAST for folder in folders))
    assert metrics(folders[0]) == metrics(folders[1])
    check_losses(metrics(folders[0]), straight.log(0))
    check_embeddings_only(folders[0], tmp_path / "elsewhere")
    refuse_other_weights(parts, tmp_path)


def check_losses(lines: list[dict[str, Any]], said: str) -> None:
    """The first line holds the losses of the directory, the others what came to them."""
    held_out = {line["step"]: line for line in lines if "held_out/mlm_loss" in line}
    assert list(held_out) == [0, 4, 8]
    assert "held_out/mlm_loss_change" not in held_out[0]
    for step in (4, 8):
        for name in ("held_out/mlm_loss", "held_out/nsp_loss"):
            change = held_out[step][name] - held_out[0][name]
            assert held_out[step][f"{name}_change"] == pytest.approx(change, abs=1e-12)
    assert f"{held_out[8]['held_out/mlm_loss_change']:+.3f} since step 0" in said
    assert "the language model head is taken from there" in said
    assert "positions from 20 on repeat the first ones" in said


def check_embeddings_only(folder: Path, bert: Path) -> None:
    """After three of five steps nothing but the embeddings and the decoder's bias has moved."""
    begun = load_file(bert / "model.safetensors")
    for step, still in (("step-00000003", True), (LAST, False)):
        ours = load_weights(folder / "checkpoints" / step)
        same = {
            name: torch.equal(to_huggingface({name: value})[theirs], begun[theirs])
            for name, value in ours.items()
            for theirs in list(to_huggingface({name: value}))[:1]
            if "positions" not in name
        }
        moved = {name for name, is_same in same.items() if not is_same}
        embeddings = {name for name in same if name.startswith(EMBEDDINGS)}
        assert moved == (embeddings if still else set(same))


def refuse_other_weights(parts: Path, folder: Path) -> None:
    """A resume that names other weights, or none, is another run."""
    (parts.parent / "run" / "DONE").unlink()
    other = write_bert(folder / "other", seed=6)
    refused = run(1, parts, f"init_from.path={other}", "train.steps=9")
    assert exit_codes(refused) == [BAD_CONFIG], refused.output()
    assert "another run: init_from is '" in refused.log(0)
    none = init_from.settled(load(Pretrain, parts, ["init_from=null"]))
    saved = Record.read(parts.parent / "run" / "checkpoints" / LAST).identity
    now = of_config(none) | {"init_from": init_from.identity(none, saved["init_from"])}
    with pytest.raises(ConfigError, match=r"another run: init_from is None here, '[0-9a-f]{64}'"):
        refuse_changes(saved, now, where="it")


@pytest.mark.slow
@pytest.mark.dist
def test_a_run_of_new_weights_does_not_go_on_as_one_from_a_directory(
    corpus: Path, straight: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight, tmp_path / "run")
    (tmp_path / "run" / "DONE").unlink()
    bert = write_bert(tmp_path / "bert")
    path = write_recipe(recipe(corpus, tmp_path / "run", init_from={"path": bert}))
    refused = run(2, path)
    assert exit_codes(refused) == [BAD_CONFIG] * 2, refused.output()
    assert "init_from is '" in refused.log(0)
    assert metrics(straight)[0]["step"] == 1  # and new weights are not looked at before the first


@pytest.mark.dist
@pytest.mark.slow
def test_the_checks_look_at_weights_that_were_there_too(corpus: Path, tmp_path: Path) -> None:
    bert = write_bert(tmp_path / "bert", heads=False)
    sections = {"init_from": {"embeddings_only_steps": 50}, "optimizer": {"learning_rate": 1e-2}}
    path = job(tmp_path / "job", corpus, bert, **sections, train={"precision": "fp32"})
    checked = run(1, path, "--check")
    assert exit_codes(checked) == [DONE], checked.output()
    assert "loss of the weights that the run begins from" in checked.log(0)
    assert "a gradient reaches every parameter: good" in checked.log(0)
    assert "begins at random: the directory ships no cls.predictions" in checked.log(0)
    assert "a random language model head stands still too" in checked.log(0)


def config(folder: Path, bert: Path, **model: Any) -> Pretrain:
    path = folder / "recipe.yaml"
    values = {
        "run": str(folder / "run"),
        "data": {"train": "train", "tokenizer": "tokenizer"},
        "init_from": str(bert),
        "model": model,
        "train": {"steps": 4, "global_batch": 8, "micro_batch": 8},
    }
    path.write_text(json.dumps(values))
    return load(Pretrain, path, [])


def test_the_shape_is_the_directorys_and_a_path_alone_is_enough(tmp_path: Path) -> None:
    bert = write_bert(tmp_path / "bert")
    made = init_from.settled(config(tmp_path, bert))
    assert made.init_from is not None
    assert (made.init_from.path, made.init_from.embeddings_only_steps) == (bert, 0)
    assert made.model == SHAPE.model_copy(update={"intermediate": 128})
    given = {"max_positions": 64, "dropout": 0.3, "width": 32, "num_heads": 2, "intermediate": 128}
    made = init_from.settled(config(tmp_path, bert, **given))
    assert (made.model.max_positions, made.model.dropout, made.model.num_layers) == (64, 0.3, 2)


def test_every_field_that_differs_is_named(tmp_path: Path) -> None:
    bert = write_bert(tmp_path / "bert")
    given = {"num_layers": 3, "width": 64, "intermediate": 99, "max_positions": 12, "num_heads": 2}
    with pytest.raises(ConfigError) as error:
        init_from.settled(config(tmp_path, bert, **given))
    for field in ("num_layers is 3 here, 2 there", "width is 64", "intermediate is 99 here, 128"):
        assert f"model.{field}" in str(error.value)
    assert "model.max_positions is 12 here, 20 there" in str(error.value)
    assert "num_heads" not in str(error.value)


def test_what_is_no_bert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"init_from\.path=.*missing: there is no such directory"):
        init_from.settled(config(tmp_path, tmp_path / "missing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"config\.json: not a config that can be read"):
        init_from.settled(config(tmp_path, tmp_path / "empty"))
    bert = write_bert(tmp_path / "bert")
    (bert / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 32}))
    with pytest.raises(DataError, match="model_type='gpt2'; must be 'bert'"):
        init_from.settled(config(tmp_path, bert))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("model.num_heads=5", "num_heads=5 must divide width=32; width 30 or 35 would do"),
        (
            "train.precision=fp8",
            "train.precision: Input should be 'auto', 'fp32', 'bf16' or 'fp16'",
        ),
        ("init_from.path=nowhere", "init_from.path=nowhere: there is no such directory"),
        ("init_from.embeddings_only_steps=-1", "init_from.embeddings_only_steps: "),
        ("model.num_layers=7", "model.num_layers is 7 here, 2 there"),
        ("model.max_positions=24", "model.max_positions=24 must be at least the rows' length"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(
    words: str,
    said: str,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_recipe(
        recipe(corpus, tmp_path / "run", init_from={"path": write_bert(tmp_path / "bert")})
    )
    monkeypatch.setattr("sys.argv", ["pretrain.py", "--config", str(path), "--dry-run", words])
    assert command.run_rank(pretrain.main) == BAD_CONFIG
    last = capsys.readouterr().err.strip().split("\n")[-1]
    assert last.startswith("error: ")
    assert said in last


def test_the_hash_is_of_weights_and_tokenizer_wherever_they_are(tmp_path: Path) -> None:
    first, second, other = (
        write_bert(tmp_path / name, seed) for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert init_from.content_hash(first) == init_from.content_hash(second)
    assert init_from.content_hash(first) != init_from.content_hash(other)
    (second / "README.md").write_text("a word")
    assert init_from.content_hash(first) == init_from.content_hash(second)
    (second / "tokenizer.json").write_text("{}")
    assert init_from.content_hash(first) != init_from.content_hash(second)


def fresh_masters(here: Place, cases: list[Case]) -> list[bool]:
    """Whether the fp32 weights begin as the model was given, a case an entry."""
    answers = []
    for case in cases:
        engine = build(case, here, kind="adamw", weight_decay=0.9)
        given = Bert(engine.config.model, rows.VOCAB_SIZE, seed=7).state_dict()
        answers.append(all(torch.equal(w, given[n]) for n, w in masters(engine).items()))
    return answers


@pytest.mark.dist
def test_weights_begin_in_fp32_as_they_were_given_and_not_rounded_to_bf16() -> None:
    cases = [Case(stage, "bf16", 1) for stage in STAGES]
    assert on_ranks(2, fresh_masters, cases) == [[True] * len(STAGES)] * 2
