import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from data_prep.config import Tags
from data_prep.tags import load_tagger, tags_fingerprint, tags_of
from mlmdist.errors import ConfigError, DataError
from mlmdist.tokenizer import Encoded

TEXTS = ["The rivers ran.", "", "Rivers, 漢字"]
PIECES = [["The", " riv", "ers", " ran", "."], [], ["Riv", "ers", ",", " ", "漢", "字"]]
STARTS = [True, True, False, True, True, True, False, True, True, True, True]


def encoded() -> Encoded:
    pieces = [piece for row in PIECES for piece in row]
    ptr = np.cumsum([0] + [len(row) for row in PIECES])
    return Encoded(np.arange(len(pieces), dtype=np.int32), np.cumsum([*map(len, pieces)]), ptr)


def tags(config: Tags) -> list[int]:
    found = tags_of(TEXTS, encoded(), np.array(STARTS), config)
    assert found is not None
    assert found.dtype == np.uint8
    return found.tolist()


@pytest.fixture
def tagger(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("a_tagger")
    monkeypatch.setitem(sys.modules, "a_tagger", module)
    load_tagger.cache_clear()
    return module


def test_no_tags_where_none_are_asked_for() -> None:
    assert tags_of(TEXTS, encoded(), np.array(STARTS), Tags()) is None
    assert tags_fingerprint(Tags()) == ""


def test_every_token_of_a_word_has_its_words_tag(tmp_path: Path) -> None:
    path = tmp_path / "tags.tsv"
    path.write_text("rivers\t7\nRan\t9\n字\t3\n.\t255\n", "utf-8")
    assert tags(Tags(word_list=path)) == [0, 7, 7, 0, 255, 7, 7, 0, 0, 0, 3]


def test_a_tagger_sees_the_words_of_a_paragraph(tagger: ModuleType) -> None:
    seen: list[list[str]] = []

    def tag(words: list[str]) -> list[int]:
        seen.append(words)
        return [len(word) for word in words]

    tagger.tag = tag  # pyright: ignore[reportAttributeAccessIssue]
    assert tags(Tags(tagger="a_tagger:tag")) == [3, 6, 6, 3, 1, 6, 6, 1, 0, 1, 1]
    assert seen == [["The", "rivers", "ran", "."], ["Rivers", ",", "", "漢", "字"]]
    tagger.tag = lambda words: np.arange(len(words))  # pyright: ignore[reportAttributeAccessIssue]
    load_tagger.cache_clear()
    assert tags(Tags(tagger="a_tagger:tag"))[:4] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([1, 2], "gives 2 tags for the paragraph 'The rivers ran.' of 4 words"),
        ([1, 2, 3, 256], "gives 256 for the paragraph 'The rivers ran.'"),
        ([1, 2, 3, -1], "gives -1 "),
        ([1, 2, 3, "NOUN"], "gives 'NOUN' "),
        ([1, 2, 3, 1.0], "gives 1.0 "),
        ([1, 2, 3, True], "gives True "),
        (None, "fails with TypeError"),
    ],
)
def test_a_wrong_answer_is_a_data_error_that_names_the_paragraph(
    tagger: ModuleType, answer: Any, message: str
) -> None:
    tagger.tag = lambda _: answer  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(DataError, match=r"a_tagger:tag") as error:
        tags(Tags(tagger="a_tagger:tag"))
    assert message in str(error.value)


def test_a_tagger_that_fails_is_a_data_error(tagger: ModuleType) -> None:
    tagger.tag = lambda words: words[10]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(DataError, match=r"IndexError: .* on the paragraph 'The rivers ran\.'"):
        tags(Tags(tagger="a_tagger:tag"))


def test_a_tagger_that_cannot_be_had_is_a_config_error(tagger: ModuleType) -> None:
    tagger.number = 3  # pyright: ignore[reportAttributeAccessIssue]
    for name in ("no_such_module:tag", "a_tagger:missing", "a_tagger:number"):
        with pytest.raises(ConfigError, match=name):
            tags(Tags(tagger=name))
    with pytest.raises(ValueError, match="tagger"):
        Tags(tagger="a_tagger")


def test_the_recipe_refuses_bad_lists_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tags.tsv"
    path.write_text("a\t1\n", "utf-8")
    first = tags_fingerprint(Tags(word_list=path))
    with pytest.raises(ValueError, match="both"):
        Tags(word_list=path, tagger="a:b")
    path.write_text("a\t2\n", "utf-8")
    assert tags_fingerprint(Tags(word_list=path)) != first
    path.write_text("a\n", "utf-8")
    with pytest.raises(ValueError, match="line 1"):
        Tags(word_list=path)


def test_the_example_list_can_be_used() -> None:
    path = Path("configs/prep/content_words.tsv")
    found = tags_of(["River"], one_word("River"), np.array([True]), Tags(word_list=path))
    assert found is not None
    assert found.tolist() == [1]


def one_word(word: str) -> Encoded:
    return Encoded(np.zeros(1, np.int32), np.array([len(word)]), np.array([0, 1]))
