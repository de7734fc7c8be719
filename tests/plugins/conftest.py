"""The folder of the example is a package of its own: its test runs where it is installed, as `test_example_plugin` has it."""

collect_ignore = ["example_plugin"]
