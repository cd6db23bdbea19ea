"""Fuzzing of ``bvsi``: valid inputs of every kind are changed at random, and every command has to stay civil.

``python -m bvsi.studies.fuzz --minutes 10 --seed 0``. A command may do its work (exit code 0) or refuse with one
message (exit code 2). Tracebacks, signals, hangs, gigabytes, writes elsewhere, reads behind the user's back, and code
that is run from an input are findings. Input number k of a seed is always the same, so that each can be made again.
"""
