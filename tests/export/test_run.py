"""From a run's checkpoint, written by DeepSpeed, to answers: the commands as a user gives them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import pipeline

from mlmdist.cli import main
from mlmdist.config.data import Data
from mlmdist.config.model import Model
from mlmdist.config.pretrain import Pretrain
from mlmdist.config.train import Train
from mlmdist.dist import Place
from mlmdist.model.bert import Bert
from mlmdist.scoring.model import open_model
from mlmdist.scoring.run import open_run
from mlmdist.tokenizer import Tokenizer
from mlmdist.train import checkpoint, folder, identity
from mlmdist.train.engine import Engine
from tests.export.corpus import save, text_lines, train
from tests.train.ranks import on_ranks

pytestmark = [pytest.mark.dist, pytest.mark.slow]
SHAPE = Model(num_layers=2, width=32, num_heads=2, max_positions=64, initializer_range=0.3)
TEXT = "ba [MASK] ki."


@dataclass(frozen=True)
class Finished:
    path: Path
    model: Bert
    tokenizer: Tokenizer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder with checkpoints of steps 1 and 2, by DeepSpeed in bf16 with ZeRO stage 1."""
    home = tmp_path_factory.mktemp("home")
    tokenizer = train("unigram")
    save(tokenizer, home / "tokenizer")
    config = Pretrain(
        run=home / "run",
        data=Data(train=home / "train", tokenizer=home / "tokenizer"),
        model=SHAPE,
        train=Train(steps=2, global_batch=2, micro_batch=2, precision="bf16"),
    )
    config.run.mkdir()
    folder.save_config(config)
    on_ranks(1, write_checkpoints, config, tokenizer)
    model = Bert(SHAPE, tokenizer.vocabulary.size, seed=2).eval()
    return Finished(config.run, model, tokenizer)


def write_checkpoints(here: Place, config: Pretrain, tokenizer: Tokenizer) -> None:
    for step in (1, 2):
        bert = Bert(SHAPE, tokenizer.vocabulary.size, seed=step)
        engine = Engine(config, bert, here, accumulation=1, mark=lambda _: None)
        record = checkpoint.Record(
            step=step,
            world_size=1,
            threads=1,
            position={"batch": step},
            counters={"batch": step},
            meter=[],
            identity=identity.of_data({"one": "none"}, {"one": 1}, tokenizer.hash, {}),
            config={},
            vocab_size=tokenizer.vocabulary.size,
        )
        checkpoint.save(config.run, engine, record, here, keep=2)


def test_a_run_is_opened_at_its_newest_checkpoint_in_fp32(run):
    trained = open_run(run.path)
    assert trained.checkpoint.name == "step-00000002"
    assert trained.tokenizer.hash == run.tokenizer.hash
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(trained.model.state_dict()[name], tensor), name
        assert trained.model.state_dict()[name].dtype == torch.float32


def test_a_checkpoint_is_opened_by_its_own_name(run):
    trained = open_run(run.path / "checkpoints" / "step-00000001")
    first = Bert(SHAPE, run.tokenizer.vocabulary.size, seed=1)
    assert torch.equal(trained.model.mlm_head.dense.weight, first.mlm_head.dense.weight)


def test_export_and_fill_from_the_command_line(run, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(text_lines(30, 5)), encoding="utf-8")
    arguments = ["export", str(run.path), str(tmp_path / "hf"), "--lines", str(lines)]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main(["fill", str(run.path), TEXT, "--top-k", "3"]) == 0
    ours = capsys.readouterr().out
    assert main(["fill", str(tmp_path / "hf"), TEXT, "--top-k", "3"]) == 0
    assert capsys.readouterr().out == ours
    expected = pipeline("fill-mask", str(tmp_path / "hf"))(TEXT, top_k=3)
    for line, answer in zip(ours.splitlines(), expected, strict=True):
        assert line.endswith(f"  {answer['sequence']}")
    scores = [float(line.split()[0]) for line in ours.splitlines()]
    assert scores == pytest.approx([answer["score"] for answer in expected], abs=1e-4)


def test_without_shards_or_lines_the_probes_are_compared(run, tmp_path, caplog):
    assert main(["export", str(run.path), str(tmp_path / "hf")]) == 0
    assert (tmp_path / "hf" / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["export", "nothing", "out"], 3, "nothing: neither a run folder"),
        (["fill", "nothing", TEXT], 3, "nothing: no model"),
        (["export", "{run}", "{run}"], 2, "already there"),
        (["export", "{run}", "{run}", "--overwrite"], 2, "no earlier export"),
        (["export", "{run}", "out", "--lines", "nowhere.txt"], 3, "nowhere.txt: not readable"),
        (["fill", "{run}", "no blank"], 2, "no blank; write [MASK]"),
    ],
)
def test_a_mistake_is_one_line_and_its_exit_code(
    run, arguments, code, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main([argument.format(run=run.path) for argument in arguments]) == code
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(error) == 1
    assert message in error[0]
    assert list(tmp_path.iterdir()) == []


def test_another_tokenizer_in_the_place_of_the_runs_is_refused(run, tmp_path, capsys):
    other = tmp_path / "run"
    (other / "checkpoints").mkdir(parents=True)
    (other / "checkpoints" / "step-00000002").symlink_to(run.path / "checkpoints/step-00000002")
    save(train("bpe"), tmp_path / "other")
    config = (run.path / "config.yaml").read_text()
    changed = re.sub("tokenizer: .*", f"tokenizer: {tmp_path / 'other'}", config)
    (other / "config.yaml").write_text(changed)
    assert main(["fill", str(other), TEXT]) == 3
    assert "was trained with" in capsys.readouterr().err
    (other / "config.yaml").write_text(changed.replace("/other", "/gone"))
    assert main(["fill", str(other), TEXT]) == 3
    assert "names it as the tokenizer" in capsys.readouterr().err


def test_help_needs_neither_torch_nor_transformers():
    import subprocess
    import sys

    code = (
        "import sys; from mlmdist.cli import main\n"
        "try: main(['fill', '--help'])\n"
        "except SystemExit: pass\n"
        "import json; json.dump(sorted(sys.modules), sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(done.stderr)
    assert not {"torch", "transformers", "deepspeed", "mlflow", "numpy"} & set(modules)
    assert "--top-k" in done.stdout


def test_open_model_takes_all_three_kinds(run, tmp_path):
    assert main(["export", str(run.path), str(tmp_path / "hf")]) == 0
    paths = (run.path, run.path / "checkpoints" / "step-00000002", tmp_path / "hf")
    weights = [open_model(path).model.state_dict() for path in paths]
    for name, tensor in weights[0].items():
        assert all(torch.equal(tensor, other[name]) for other in weights[1:]), name
