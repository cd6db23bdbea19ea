"""A limit on counted work, so that an expression on which SymPy hangs fails a test on any machine, busy or not."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from cProfile import Profile

# CPU seconds after which the calls are counted, again and again: it decides how soon a text that hangs is given up, not
# which one is.
OFTEN = 0.5


class TooMuchWorkError(BaseException):
    """Not an Exception: nothing on the way may catch it."""


@contextmanager
def work_limit(calls: int) -> Iterator[None]:
    """At most so many calls of Python functions in the block."""
    profile = Profile(subcalls=False, builtins=False)

    def count(*_: object) -> None:
        if sum(entry.callcount for entry in profile.getstats()) > calls:
            raise TooMuchWorkError(f"more than {calls} calls")

    try:
        with profile, _often(count):
            yield
        count()
    except TooMuchWorkError as error:
        raise AssertionError(str(error)) from None


@contextmanager
def _often(count: Callable[..., None]) -> Iterator[None]:
    """The count is made again and again in the block, where the system has such a clock; Windows counts at the end."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGVTALRM, count)
    signal.setitimer(signal.ITIMER_VIRTUAL, OFTEN, OFTEN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
