"""Published algorithms beside ours, and the data faults of others, which ours does not have.

Google's: create_pretraining_data.py of google-research/bert. Hugging Face's:
DataCollatorForLanguageModeling of transformers.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from mlmdist.blocks import Block
from mlmdist.config import data as config
from mlmdist.data.batch import lay_out
from mlmdist.data.masks import num_targets
from mlmdist.data.pairs import UNLABELLED, pair
from mlmdist.rng import hash64
from tests.data.corpus import (
    CAPACITY,
    VOCABULARY,
    cell_ptr,
    random_block,
    windows_of,
    write_set,
)
from tests.data.test_loader import make as loader
from tests.data.test_masks import make


def googles_count(length: int, most: int = 10_000) -> int:
    """`min(max_predictions_per_seq, max(1, int(round(len(tokens) * masked_lm_prob))))`."""
    return min(most, max(1, round(length * 0.15)))


def test_as_many_tokens_are_masked_as_by_google():
    """At every length, but that halves go up: Python rounds them to the even number."""
    lengths = np.arange(3, 513)
    ours = num_targets(lengths, 150_000)
    halves = lengths * 15 % 100 == 50
    theirs = np.array([googles_count(int(length)) for length in lengths])
    assert (ours[~halves] == theirs[~halves]).all()
    assert (ours[halves] == np.floor(lengths[halves] * 0.15 + 0.5)).all()
    assert num_targets(np.array([128, 512]), 150_000).tolist() == [19, 77]


def whole(num_windows: int, seed: int) -> Block:
    """Windows without repeated heads, so that every ordinary token may be chosen."""
    block = random_block(num_windows, seed)
    return replace(block, repeated=np.zeros(num_windows, dtype=np.uint16))


@pytest.mark.slow
def test_coins_give_the_distribution_of_hugging_faces_collator():
    """Shares of [MASK], random and kept, and the count a row: equal within binomial bounds."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {name: n for n, name in enumerate(names)} | {f"w{n}": n for n in range(5, 1000)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "[UNK]"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, **{f"{name[1:-1].lower()}_token": name for name in names}
    )
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    block = whole(2000, 12)
    torch.manual_seed(0)
    rows = [
        [2, *block.tokens[a:b].tolist(), 3]
        for a, b in zip(block.window_ptr[:-1], block.window_ptr[1:], strict=True)
    ]
    theirs = collate([{"input_ids": row} for row in rows])
    chosen = theirs["labels"] != UNLABELLED
    theirs_new, theirs_old = theirs["input_ids"][chosen].numpy(), theirs["labels"][chosen].numpy()
    _, stream, masked = make(block, config.Mask(exact=False), kind="none")
    ours_new, ours_old = masked.tokens[masked.index], masked.labels
    ordinary = int(np.count_nonzero(stream.tokens >= 5))
    for new, old in ((theirs_new, theirs_old), (ours_new, ours_old)):
        assert abs(len(new) - 0.15 * ordinary) < 4 * np.sqrt(0.15 * 0.85 * ordinary)
        for found, share in ((new == 4, 0.8), (new == old, 0.1)):
            assert abs(found.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / len(new))
    assert np.isin(theirs_new[theirs_new != theirs_old], [0, 1, 2, 3]).any()  # drawn specials
    assert not np.isin(ours_new, [0, 1, 2, 3]).any()


def test_m1_neither_specials_nor_padding_nor_byte_pieces_are_drawn():
    new = np.concatenate([make(whole(3000, s), config.Mask(rate=0.5))[2].tokens for s in (1, 2)])
    drawn = set(new.tolist()) - {VOCABULARY.cls_id, VOCABULARY.sep_id, VOCABULARY.mask_id}
    text = {t for s in (1, 2) for t in whole(3000, s).tokens.tolist()}
    masked = make(whole(3000, 1), config.Mask(rate=0.5, mask_share=0, random_share=1))[2]
    assert VOCABULARY.pad_id not in drawn
    assert drawn <= text | set(VOCABULARY.drawable.tolist())
    assert masked.tokens[masked.index].min() >= VOCABULARY.drawable[0]


def test_m3_two_ranks_do_not_mask_the_same_places(tmp_path):
    """One generator seeded alike on every rank gives row i of each the same places."""
    write_set(tmp_path, whole(600, 3)).close()
    ranks = [loader(tmp_path, batch=256, rank=r, world=2).batch(0) for r in range(2)]
    (one,), (two,) = ([m.masked_index for m in step.micro_batches[:1]] for step in ranks)
    shared = len(np.intersect1d(one, two)) / min(len(one), len(two))
    assert shared < 0.35


def test_seed_0_is_a_seed(tmp_path):
    """Neither unset nor the same as another one, and the same each time."""
    write_set(tmp_path, random_block(400, 3)).close()
    first, again, other = (
        loader(tmp_path, batch=64, micro=64, seed=seed).batch(0).micro_batches[0]
        for seed in (0, 0, 1)
    )
    assert (first.tokens == again.tokens).all()
    assert (first.sample_ids != other.sample_ids).any()


def test_a_row_of_special_tokens_only_and_one_of_unknown_words_have_no_mask():
    """A micro-batch without a mask: no label, and nothing that a loss could be divided by."""
    block = random_block(8, 2)
    block = replace(block, tokens=np.full_like(block.tokens, VOCABULARY.unk_id))
    for unit in ("token", "word", "span", "ngram"):
        _, stream, masked = make(block, config.Mask(unit=unit))
        assert len(masked.index) == len(masked.labels) == 0
        assert (masked.tokens == stream.tokens).all()


def topics(num_windows: int) -> Block:
    """Each document has words of its own, so that B's words tell which document it is from."""
    block = random_block(num_windows, 7, windows_per_document=4)
    document = np.repeat(block.document_id.astype(np.int64), np.diff(block.window_ptr.astype(int)))
    draws = np.array([hash64("topic", n) % 20 for n in range(len(block.tokens))])
    return replace(block, tokens=(20 + document % 45 * 20 + draws).astype(np.uint16))


@pytest.mark.slow
def test_p4_the_words_of_b_alone_do_not_tell_the_label():
    """Without A, a bag of B's words is no evidence: negatives are B's of other true pairs."""
    block = topics(3200)
    windows = windows_of(block)
    spans = pair("nsp", windows, cell_ptr(block.num_rows), 0, CAPACITY)
    stream = lay_out(windows, spans, VOCABULARY)
    labelled = np.flatnonzero(spans.labels != UNLABELLED)
    bags = []
    for row in labelled:
        here = slice(*stream.ptr[row : row + 2])
        second = stream.tokens[here][stream.segments[here] == 1][:-1]
        bags.append({int(token): 1 for token in second})
    x, y = DictVectorizer().fit_transform(bags), spans.labels[labelled]
    half = len(y) // 2
    model = LogisticRegression(max_iter=200).fit(x[:half], y[:half])  # pyright: ignore[reportIndexIssue]
    auc = roc_auc_score(y[half:], model.predict_proba(x[half:])[:, 1])  # pyright: ignore[reportIndexIssue]
    assert 0.45 < auc < 0.55
