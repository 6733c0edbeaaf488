"""Work that goes on in threads, and comes back in its order."""

import threading
import time

import pytest

from corelet.adapters.beside import in_order


@pytest.mark.parametrize("at_once", [1, 3])
def test_what_comes_back_is_in_order(at_once):
    def work(item):
        time.sleep(0.002 * (item % 3))
        return item * item

    assert list(in_order(work, iter(range(20)), at_once)) == [item * item for item in range(20)]


def test_so_many_threads_and_the_first_here():
    here, seen, most, now, lock = threading.get_ident(), [], 0, 0, threading.Lock()

    def work(item):
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
            seen.append((item, threading.get_ident()))
        time.sleep(0.01)
        with lock:
            now -= 1

    list(in_order(work, range(12), 2))
    assert dict(seen)[0] == here
    assert all(thread != here for item, thread in seen if item)
    assert most == 2


def test_an_error_is_raised_and_nothing_is_begun_after():
    begun = []

    def work(item):
        begun.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    found = in_order(work, range(100), 2)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(found)
    assert max(begun) <= 5
