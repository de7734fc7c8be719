"""How values look in a table, and that JSON gets the numbers."""

import json

import pytest

from levrier.cluster.cli.output import Duration, Instant, Size, cell, print_record


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        (1.5, "1.5"),
        ([1, 2], "1, 2"),
        ("tab\there", r"tab\there"),
        ("größe", "größe"),
        (Instant(0), "-"),
        (Instant(1_700_000_000_000_001), "2023-11-14T22:13:20.000001Z"),
        (Instant(2**64 - 1), "18446744073709551615 us"),
        (Size(0), "0"),
        (Size(1023), "1023"),
        (Size(1 << 20), "1MiB"),
        (Size((1 << 30) + 1024), "1048577KiB"),
        (Duration(0), "0us"),
        (Duration(1_500), "1500us"),
        (Duration(90_000_000), "90s"),
        (Duration(7 * 86_400_000_000), "7days"),
    ],
    ids=repr,
)
def test_a_cell(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_json_keeps_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    print_record({"at": Instant(7), "size": Size(1 << 20), "age": Duration(1_000)}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"at": 7, "size": 1 << 20, "age": 1_000}
