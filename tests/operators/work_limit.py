"""A limit on counted work, so that an expression on which SymPy hangs fails a test on any machine, busy or not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class TooMuchWorkError(BaseException):
    """Not an Exception: nothing on the way may catch it."""


@contextmanager
def work_limit(calls: int) -> Iterator[None]:
    """At most so many calls of Python functions in the block."""
    made = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"
        if made > calls:
            sys.setprofile(None)
            raise TooMuchWorkError(f"more than {calls} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    except TooMuchWorkError as error:
        raise AssertionError(str(error)) from None
    finally:
        sys.setprofile(before)
