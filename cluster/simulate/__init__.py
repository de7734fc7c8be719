"""Whole clusters stepped from a seed, with every fault there is, and the checkers that watch them."""
