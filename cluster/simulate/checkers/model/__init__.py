"""A second implementation of the catalogue, from the specification alone: what the checkers compare the product with.

`machine.Model` applies operations (`machine.Step`), `steps.step_of` makes them of entries of a log, `reads.answer` answers
reads, `layout` gives the bytes. Nothing in here imports anything above `levrier.wire`: whoever shares code shares mistakes.
"""
