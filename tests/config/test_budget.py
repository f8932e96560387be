"""How long a run trains: the four ways to say it, and what contradicts itself."""

from typing import Any

import pytest

from mlmdist.config.budget import Budget, time_text
from mlmdist.config.loading import build
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86_400), ("90m", 5400), ("1d12h", 129_600), ("1h30m20.5s", 5420.5), (45, 45)],
)
def test_times_are_read_and_written_as_people_write_them(text: Any, seconds: float) -> None:
    budget = Budget(time=text)
    assert budget.time == seconds
    assert budget.given == ["time"]
    assert Budget(**budget.model_dump(mode="json")) == budget


def test_time_text_is_short() -> None:
    assert [time_text(value) for value in (86_400, 5400, 61, 0.5)] == [
        "1d",
        "1h30m",
        "1m1s",
        "0.5s",
    ]


@pytest.mark.parametrize(
    ("text", "number"), [("10B", 10**10), ("1.5M", 1_500_000), (1e9, 10**9), (7, 7), ("2k", 2000)]
)
def test_counts_are_read_with_their_prefixes(text: Any, number: int) -> None:
    assert Budget(tokens=text).tokens == number


def pretrain(**sections: Any) -> Pretrain:
    values: dict[str, Any] = {
        "run": "r",
        "data": {"train": "t", "tokenizer": "k"},
        "train": {"steps": 10, "global_batch": 8, "micro_batch": 4},
    }
    for name, section in sections.items():
        values[name] = section if name == "phases" else values.get(name, {}) | section
    return build(Pretrain, values, "it")


TWO = [{"steps": 5}, {"steps": 6}]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"train": {"steps": None}}, "train: no budget; give one of steps, tokens, epochs or time"),
        ({"train": {"time": "1h"}}, "train: steps and time are given; give one of"),
        ({"train": {"time": "soon", "steps": None}}, "must be a time such as 24h"),
        ({"train": {"tokens": "many", "steps": None}}, "must be a number such as"),
        ({"phases": TWO}, "train.steps: each of the phases has its own; leave it out"),
        ({"train": {"steps": None}, "phases": [{}, *TWO]}, "phases.0: no budget"),
        (
            {"train": {"steps": None}, "phases": [{"steps": 5}, {"time": "5m"}]},
            "all of them must go by time, or none",
        ),
        (
            {"train": {"steps": None}, "phases": [{"steps": 5, "learning_rate": 1e-3}, TWO[1]]},
            "all of them must have a learning_rate, or none",
        ),
        (
            {"train": {"steps": None}, "phases": [TWO[0] | {"name": "a"}, TWO[1] | {"name": "a"}]},
            "two are named 'a'",
        ),
        (
            {"train": {"batch_warmup": {"first": 9, "steps": 5}}},
            "train.batch_warmup.first=9 must be at most the batch it grows to, 8",
        ),
        ({"ending": {"patience": 2}}, "ending.patience needs held-out losses: give data.held_out"),
        (
            {"train": {"steps": None, "time": "1h"}, "schedule": {"warmup_steps": 5}},
            "schedule.warmup_steps goes with steps",
        ),
        (
            {
                "train": {"steps": None, "time": "1h"},
                "schedule": {"kind": "wsd", "warmup": 0.5, "decay": 0.6},
            },
            "warmup=0.5 and decay=0.6 are shares of one run: at most 1 together",
        ),
        (
            {"train": {"steps": None}, "phases": TWO, "schedule": {"warmup_steps": 12}},
            "schedule.warmup_steps=12 must be at most the phases' steps=11",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        pretrain(**sections)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_phases_by_steps_may_share_a_schedule_or_have_their_own() -> None:
    assert len(pretrain(train={"steps": None}, phases=TWO).phases) == 2
    own = [phase | {"learning_rate": 1e-3} for phase in TWO]
    assert pretrain(train={"steps": None}, phases=own).phases[1].learning_rate == 1e-3
