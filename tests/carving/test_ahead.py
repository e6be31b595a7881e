"""Items that a second thread makes before they are asked for."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from tapml.compare.tolerance import noisy, shares
from tapml.threads import ahead


def test_items_come_in_order_and_are_made_elsewhere_before_they_are_asked_for() -> None:
    second, makers = threading.Event(), set()

    def items() -> Iterator[int]:
        for number in range(50):
            makers.add(threading.current_thread())
            if number == 1:
                second.set()
            yield number

    with ahead(items()) as made:
        assert second.wait(180)
        assert [*made] == [*range(50)]
    assert makers
    assert threading.current_thread() not in makers
    assert not any(maker.is_alive() for maker in makers)


def test_what_making_one_raises_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is full")

    with ahead(items()) as made:
        assert next(made) == 1
        with pytest.raises(OSError, match="the disk is full"):
            next(made)


def test_who_leaves_early_waits_for_no_more_of_them() -> None:
    done = []

    def items() -> Iterator[int]:
        for number in range(1000):
            done.append(number)
            yield number

    with ahead(items()) as made:
        next(made)
    assert len(done) < 10


def test_shares_are_one_stream_however_large_a_tensor_is() -> None:
    one, two = np.random.default_rng(1), np.random.default_rng(1)
    large = shares((3, 100_000), one)
    assert large.dtype == np.float32
    np.testing.assert_array_equal(large, two.uniform(-1.0, 1.0, (3, 100_000)).astype(np.float32))
    assert one.random() == two.random()


def test_no_value_is_moved_to_what_is_not_finite() -> None:
    value = np.array([1.0, np.finfo(np.float32).max, np.inf, -np.inf], np.float32)
    moved = noisy(value, np.array([0.5, 1e38, 1.0, np.nan], np.float32))
    np.testing.assert_array_equal(moved, [1.5, *value[1:]])
