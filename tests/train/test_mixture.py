"""A run on several corpora: planned, trained, measured and resumed by name (laws T1, T2, E1)."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from mlmdist.errors import BAD_CONFIG, DONE
from mlmdist.train import identity, plan
from mlmdist.train.phases import open_phases
from mlmdist.train.sources import open_sources
from tests.train.corpus import recipe
from tests.train.jobs import before_step, exit_codes, run
from tests.train.runs import job_of, metrics


def several(corpus: Path, weights: tuple[float, float] = (3, 1), **data: Any) -> dict[str, Any]:
    """Two corpora, of 600 and 50 windows, and both as held-out sets."""
    names, folders = ("wiki", "books"), (corpus / "train", corpus / "held_out")
    train = [
        {"name": name, "path": folder, "weight": weight}
        for name, folder, weight in zip(names, folders, weights, strict=True)
    ]
    held_out = [{"name": one["name"], "path": one["path"]} for one in train]
    return {"train": train, "held_out": held_out, **data}


def test_the_plan_counts_epochs_for_each_corpus(corpus: Path, tmp_path: Path) -> None:
    config = recipe(corpus, tmp_path / "run", data=several(corpus))
    phases = open_phases(config)
    planned = plan.make_plan(phases[0], world_size=2)
    assert [one.share for one in planned.corpora] == [0.75, 0.25]
    assert planned.corpora[1].epochs == pytest.approx(8 * 12 * 0.25 / 50)
    assert "books: 25.00%, 50 windows, 0.48 epochs" in plan.text(phases, config, 2)


def test_levels_are_those_of_the_mixture_on_each_held_out_set(corpus: Path, tmp_path: Path) -> None:
    config = recipe(corpus, tmp_path / "run", data=several(corpus))
    levels = open_sources(config).levels()
    assert set(levels) == {"ln V", "unigram", "unigram wiki", "unigram books"}
    assert min(levels["unigram wiki"], levels["unigram books"]) < levels["unigram"] < 7


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"weights": (2, 1)}, r"data\.train is 'wiki 2731/4096, books 1365/4096' here"),
        ({"held": "train"}, r"data\.train\.books is"),
        ({"single": True}, r"data\.train is"),
    ],
)
def test_t2_a_change_of_the_corpora_is_refused_by_name(
    corpus: Path, tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    saved = recipe(corpus, tmp_path / "run", data=several(corpus))
    data = several(corpus, changed.get("weights", (3, 1)))
    if "held" in changed:
        data["train"][1]["path"] = corpus / changed["held"]
    if "single" in changed:
        data["train"] = corpus / "train"
    now = recipe(corpus, tmp_path / "run", data=data)
    before, after = (open_sources(config).identity(config) for config in (saved, now))
    with pytest.raises(identity.ConfigError, match=named):
        identity.refuse_changes(before, after, where="it")
    identity.refuse_changes(before, after, accepted=["data.train"], where="it")


@pytest.mark.dist
@pytest.mark.long
def test_t1_a_killed_run_on_two_corpora_goes_on_and_reports_each(
    corpus: Path, tmp_path: Path
) -> None:
    sections = {"data": several(corpus), "every": {"evaluate": 4, "log": 4}}
    straight = job_of(tmp_path / "straight", corpus, **sections)
    assert exit_codes(run(1, straight)) == [DONE]
    config = job_of(tmp_path / "killed", corpus, **sections)
    run(1, config, fault=before_step(6, lambda _: os.kill(os.getpid(), signal.SIGKILL)))
    assert exit_codes(run(1, config)) == [DONE]
    logged = [metrics(path.parent / "run") for path in (straight, config)]
    assert logged[0] == logged[1]
    last = {name: value for line in logged[0] for name, value in line.items()}
    assert last["train/epochs/wiki"] * 600 + last["train/epochs/books"] * 50 == pytest.approx(96)
    assert last["train/tokens/wiki"] + last["train/tokens/books"] == last["train/tokens"]
    for name, num_windows in (("wiki", 600), ("books", 50)):
        mean = last[f"train/tokens/{name}"] / (last[f"train/epochs/{name}"] * num_windows)
        assert mean == pytest.approx(last["train/tokens_per_row"], rel=0.25)
    both = last["held_out/wiki/mlm_loss"], last["held_out/books/mlm_loss"]
    assert min(both) <= last["held_out/mlm_loss"] <= max(both)
    changed = job_of(tmp_path / "x", corpus, **{**sections, "data": several(corpus, (1, 1))})
    text = changed.read_text().replace(str(tmp_path / "x"), str(tmp_path / "killed"))
    changed.write_text(text.replace("steps: 8", "steps: 12"))
    (tmp_path / "killed" / "run" / "DONE").unlink()
    refused = run(1, changed)
    assert exit_codes(refused) == [BAD_CONFIG]
    assert "data.train is 'wiki 2048/4096, books 2048/4096' here" in refused.output()
