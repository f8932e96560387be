"""Every random choice as a function of (purpose, keys): counter hashes and keyed permutations.

Nothing here has state, so no choice depends on which process makes it, or after what. All of it is
unsigned 64-bit integer arithmetic, the same on every machine; no floats, no libm, no `np.random`.

The mixer is the finaliser of SplitMix64 (Steele, Lea and Flood 2014, section 5, with the constants
of Stafford's variant 13). The permutation is an alternating Feistel network (Luby and Rackoff 1988)
closed over any size by cycle walking (Black and Rogaway 2002, section 3).
"""

import hashlib
from functools import cache

import numpy as np
from jaxtyping import UInt64
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15
MASK64 = 0xFFFFFFFFFFFFFFFF
FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER = 0x94D049BB133111EB
FEISTEL_ROUNDS = 6
MIN_DOMAIN_BITS = 4
STRETCH = 1 << 14  # elements mixed at a time: they and their shifted copy stay in a core's cache


def mix(value: int) -> int:
    """SplitMix64's finaliser: a bijection of the 64-bit integers in which every bit moves half."""
    value = (value + GOLDEN) & MASK64
    value = ((value ^ (value >> 30)) * FIRST_MULTIPLIER) & MASK64
    value = ((value ^ (value >> 27)) * SECOND_MULTIPLIER) & MASK64
    return value ^ (value >> 31)


def mix_array(values: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """`mix`, element by element."""
    mixed = np.empty(np.shape(values), dtype=np.uint64)
    np.add(values, np.uint64(GOLDEN), out=mixed)
    flat = mixed.reshape(-1)
    shifted = np.empty(min(STRETCH, flat.size), dtype=np.uint64)
    for start in range(0, flat.size, STRETCH):
        _mix_in_place(flat[start : start + STRETCH], shifted)
    return mixed


def _mix_in_place(part: U64, shifted: U64) -> None:
    """The rest of `mix` behind its addition; `shifted` is room for as many elements."""
    shifted = shifted[: len(part)]
    part ^= np.right_shift(part, np.uint64(30), out=shifted)
    part *= np.uint64(FIRST_MULTIPLIER)
    part ^= np.right_shift(part, np.uint64(27), out=shifted)
    part *= np.uint64(SECOND_MULTIPLIER)
    part ^= np.right_shift(part, np.uint64(31), out=shifted)


@cache
def purpose_key(purpose: str) -> int:
    """The 64-bit key that keeps one use of randomness apart from every other."""
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")


def hash64(purpose: str, *keys: int) -> int:
    """A 64-bit hash of integers (taken modulo 2**64), independent between purposes."""
    state = purpose_key(purpose)
    for key in keys:
        state = absorb(state, key)
    return state


def absorb(state: int, key: int) -> int:
    """The hash of one more key: `absorb(hash64(p, a), b) == hash64(p, a, b)`."""
    return mix(state ^ mix(key & MASK64))


def absorb_array(state: int | U64, keys: U64) -> U64:
    """`absorb`, element by element; `state` is one number or broadcasts with `keys`."""
    first = np.uint64(state) if isinstance(state, int) else state
    return mix_array(first ^ mix_array(keys))


def permute(
    index: UInt64[np.ndarray, "n"],
    size: int | UInt64[np.ndarray, "n"],
    key: int | UInt64[np.ndarray, "n"],
    max_size: int | None = None,
) -> UInt64[np.ndarray, "n"]:
    """Where each `index` goes in a keyed permutation of `range(size)`.

    `size` and `key` may differ from element to element; then `max_size`, which fixes the width of
    the network, must be a bound that does not depend on the elements at hand.
    """
    return _walk(index, size, key, max_size, inverse=False)


def unpermute(
    index: UInt64[np.ndarray, "n"],
    size: int | UInt64[np.ndarray, "n"],
    key: int | UInt64[np.ndarray, "n"],
    max_size: int | None = None,
) -> UInt64[np.ndarray, "n"]:
    """The inverse of `permute` with the same size, key and `max_size`."""
    return _walk(index, size, key, max_size, inverse=True)


def _walk(
    index: U64, size: int | U64, key: int | U64, max_size: int | None, *, inverse: bool
) -> U64:
    """Apply the network again wherever it left `range(size)`: the orbit must come back."""
    if max_size is None:
        assert isinstance(size, int), "sizes that differ need max_size"
        max_size = size
    bits = max(MIN_DOMAIN_BITS, (max_size - 1).bit_length())
    sizes = np.broadcast_to(np.asarray(size, dtype=np.uint64), index.shape)
    keys = np.broadcast_to(np.asarray(key, dtype=np.uint64), index.shape)
    moved = _feistel(index, keys, bits, inverse=inverse)
    outside = np.flatnonzero(moved >= sizes)
    while outside.size:
        moved[outside] = _feistel(moved[outside], keys[outside], bits, inverse=inverse)
        outside = outside[moved[outside] >= sizes[outside]]
    return moved


def _feistel(index: U64, key: U64, bits: int, *, inverse: bool) -> U64:
    """A keyed bijection of `range(2**bits)`: rounds that change the high and low part in turn."""
    low_bits = bits // 2
    widths = (low_bits, bits - low_bits)  # of the low and of the high part
    parts = [index & np.uint64((1 << low_bits) - 1), index >> np.uint64(low_bits)]
    rounds = range(FEISTEL_ROUNDS)
    for number in reversed(rounds) if inverse else rounds:
        changed = number % 2
        word = mix_array(key ^ mix_array(parts[1 - changed] + np.uint64(number << 56)))
        parts[changed] = parts[changed] ^ (word >> np.uint64(64 - widths[changed]))
    return (parts[1] << np.uint64(low_bits)) | parts[0]
