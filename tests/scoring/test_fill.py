"""Filled blanks are those of transformers' fill-mask pipeline on the exported directory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertForMaskedLM, pipeline

from mlmdist.errors import ConfigError, DataError
from mlmdist.export import directory
from mlmdist.scoring.fill import fill
from mlmdist.scoring.model import Scorer, open_model
from mlmdist.scoring.text import SentencePieceText
from tests.export.corpus import model, text_lines, train

KINDS = [("unigram", False), ("unigram", True), ("bpe", False), ("bpe", True)]
TEXTS = [
    "ba [MASK] ki.",
    "[MASK]",
    "[MASK] lo mu",
    "  Lo  [MASK]  mu ",
    "ba[MASK]ki [MASK][MASK], Ren \U0001f600",
    "[MASK] [MASK]",
    "\u5357\u4eac[MASK]\u957f\u6c5f 1990",
]


@pytest.fixture(scope="module", params=KINDS, ids=str)
def exported(request, tmp_path_factory):
    """(our scorer of the trained model, the directory it was exported to)."""
    kind, byte_fallback = request.param
    tokenizer = train(kind, byte_fallback=byte_fallback)
    out = tmp_path_factory.mktemp("export") / "hf"
    bert = model(tokenizer.vocabulary.size)
    directory.write(bert, tokenizer, out, text_lines(20, 4))
    return Scorer(bert, SentencePieceText(tokenizer)), out


@pytest.fixture(scope="module")
def theirs(exported):
    return pipeline("fill-mask", str(exported[1]), device="cpu")


def as_theirs(answers):
    """Our answers in the pipeline's form: a list of dicts, or a list of such lists."""
    rows = [[vars(answer) for answer in row] for row in answers]
    return rows[0] if len(rows) == 1 else rows


def assert_same(ours, expected):
    """The same answers in the same order, probabilities to fp32 rounding."""
    if isinstance(expected[0], list):
        for row, other in zip(ours, expected, strict=True):
            assert_same(row, other)
        return
    for answer, other in zip(ours, expected, strict=True):
        assert {**answer, "score": 0} == {**other, "score": 0}
        assert answer["score"] == pytest.approx(other["score"], rel=1e-4)


@pytest.mark.parametrize("text", TEXTS)
def test_answers_equal_the_pipelines(exported, theirs, text):
    scorer, _ = exported
    for top_k in (1, 5, 40):
        assert_same(as_theirs(fill(scorer, text, top_k)), theirs(text, top_k=top_k))


def test_an_exported_directory_answers_as_the_model_it_came_from(exported):
    scorer, out = exported
    again = open_model(out)
    for text in TEXTS:
        assert_same(as_theirs(fill(again, text)), as_theirs(fill(scorer, text)))


def test_padding_as_an_answer_is_not_shown_as_the_pipeline_does_not(exported, theirs):
    scorer, _ = exported
    size = scorer.model.vocab_size
    for ours, expected in zip(
        fill(scorer, "ba [MASK] [MASK]", size), theirs("ba [MASK] [MASK]", top_k=size), strict=True
    ):
        (mine,) = (answer.sequence for answer in ours if answer.token == scorer.text.pad_id)
        (other,) = (answer["sequence"] for answer in expected if answer["token"] == 0)
        assert mine == other
        assert "[PAD]" not in mine


parts = st.lists(
    st.sampled_from(
        ["ba", "Ki", "lo ", " ", "\u3000", "7", ".", "[MASK]", "[", "\u5357", "\u00e9"]
    ),
    max_size=10,
).map("".join)


@settings(max_examples=60)
@given(before=parts, after=parts)
def test_ids_with_blanks_equal_those_of_the_exported_tokenizer(exported, theirs, before, after):
    scorer, _ = exported
    text = f"{before}[MASK]{after}"
    assert scorer.text.row(text)[0] == theirs.tokenizer(text)["input_ids"]


@settings(max_examples=60)
@given(data=st.data())
def test_ids_are_spelled_as_the_exported_tokenizer_spells_them(exported, theirs, data):
    scorer, _ = exported
    ids = data.draw(st.lists(st.integers(0, scorer.model.vocab_size - 1), max_size=8))
    for skip in (False, True):
        spelled = theirs.tokenizer.decode(ids, skip_special_tokens=skip)
        assert scorer.text.decode(ids, skip_special=skip) == spelled


def test_w3_other_special_names_in_text_stay_text(exported):
    scorer, _ = exported
    ids, _ = scorer.text.row("[CLS] and [SEP] and [PAD] are [MASK]")
    assert [ids.count(special) for special in (0, 2, 3, 4)] == [0, 1, 1, 1]


def test_probabilities_of_a_blank_sum_to_one(exported):
    scorer, _ = exported
    (answers,) = fill(scorer, "ba [MASK]", scorer.model.vocab_size)
    assert sum(answer.score for answer in answers) == pytest.approx(1, abs=1e-4)
    assert [answer.score for answer in answers] == sorted((a.score for a in answers), reverse=True)


@pytest.mark.parametrize(
    ("text", "top_k", "message"),
    [
        ("no blank here", 5, "no blank; write [MASK]"),
        ("[MASK] " + "ba " * 200, 5, "reads at most 96"),
        ("[MASK]", 0, "--top-k 0: must be from 1 to"),
        ("[MASK]", 10**6, "--top-k 1000000"),
    ],
)
def test_what_cannot_be_filled_is_said(exported, text, top_k, message):
    with pytest.raises(ConfigError) as error:
        fill(exported[0], text, top_k)
    assert message in str(error.value)


def test_a_published_bert_directory_with_word_pieces(tmp_path):
    """Another tokenizer, another name for it, an encoder with a language model head alone."""
    from transformers import BertTokenizer

    from tests.model.reference import VOCAB_SIZE, their_config

    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *(f"w{i}" for i in range(VOCAB_SIZE - 5)),
    ]
    tokenizer = BertTokenizer(vocab={word: token for token, word in enumerate(words)})
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    BertForMaskedLM(their_config()).eval().save_pretrained(tmp_path)
    ours = fill(open_model(tmp_path), "w1 w2 [MASK] w3 [MASK]")
    assert_same(as_theirs(ours), pipeline("fill-mask", str(tmp_path))("w1 w2 [MASK] w3 [MASK]"))


def test_no_model_is_said(tmp_path):
    with pytest.raises(DataError, match="must be a run folder, a checkpoint in one, or"):
        open_model(tmp_path)
