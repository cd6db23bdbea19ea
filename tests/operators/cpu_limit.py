"""A limit on CPU time, so that an expression on which SymPy hangs fails a test instead of stopping the run."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TooSlowError(BaseException):
    """Not an Exception: nothing on the way may catch it."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlowError(f"more than {seconds} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except TooSlowError as error:
        raise AssertionError(str(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
