"""Runs the official suites of the reference repository, unchanged, against `levrier serve`.

    python -m tests.sdk.suites python|node PATH_TO_CHECKOUT [--json]

The checkout is read and never written: what a suite needs is copied to a temporary directory, where its dependencies are
installed. Nothing of the suites is kept here.
"""
