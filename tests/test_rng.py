import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.rng import absorb, absorb_array, hash64, mix, mix_array, permute, unpermute

KEYS = st.integers(0, 2**64 - 1)


@given(st.lists(KEYS, min_size=1), KEYS)
def test_arrays_and_integers_hash_alike(values: list[int], state: int) -> None:
    array = np.array(values, dtype=np.uint64)
    assert mix_array(array).tolist() == [mix(value) for value in values]
    assert absorb_array(state, array).tolist() == [absorb(state, value) for value in values]


def test_hash64_golden_values() -> None:
    # Order, pairs and masks stand on these numbers: another value is another version of them.
    assert hash64("order", 0) == 2240119070821221559
    assert hash64("mask", 1, 2, 3) == 6785462888414622878
    assert permute(np.arange(8, dtype=np.uint64), 8, 1).tolist() == [0, 4, 5, 3, 6, 1, 7, 2]


@given(KEYS, KEYS)
def test_purposes_and_keys_are_independent(one: int, other: int) -> None:
    assert hash64("a", one) != hash64("b", one)
    if one != other:
        assert hash64("a", one) != hash64("a", other)
    assert hash64("a", one, other) == absorb(hash64("a", one), other)


@given(st.integers(1, 5000), KEYS)
def test_permute_is_a_bijection_with_its_inverse(size: int, key: int) -> None:
    index = np.arange(size, dtype=np.uint64)
    moved = permute(index, size, key)
    assert np.array_equal(np.sort(moved), index)
    assert np.array_equal(unpermute(moved, size, key), index)


@given(st.integers(10**9, 10**12), st.integers(0, 10**9 - 100), KEYS)
def test_permute_reaches_any_size(size: int, start: int, key: int) -> None:
    index = np.arange(start, start + 100, dtype=np.uint64)
    moved = permute(index, size, key)
    assert (moved < size).all()
    assert np.array_equal(unpermute(moved, size, key), index)


def test_permute_with_a_size_and_key_an_element() -> None:
    sizes, keys = (5, 7), (11, 13)
    index = np.concatenate([np.arange(size, dtype=np.uint64) for size in sizes])
    size = np.repeat(np.array(sizes, dtype=np.uint64), sizes)
    key = np.repeat(np.array(keys, dtype=np.uint64), sizes)
    moved = permute(index, size, key, max_size=7)
    assert sorted(moved[:5].tolist()) == list(range(5))
    assert sorted(moved[5:].tolist()) == list(range(7))
    assert np.array_equal(unpermute(moved, size, key, max_size=7), index)


def test_permutations_look_random() -> None:
    # The place of element 0, over many keys, is uniform: chi-squared with 15 degrees of freedom.
    places = [int(permute(np.zeros(1, dtype=np.uint64), 16, key)[0]) for key in range(4000)]
    expected = 4000 / 16
    chi_squared = sum((n - expected) ** 2 / expected for n in np.bincount(places, minlength=16))
    assert chi_squared < 37.7, "p < 0.001"
