"""`python -m controller.cli`: the console script where it is not installed."""

from controller.cli import main

main()
