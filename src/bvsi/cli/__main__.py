"""``python -m bvsi.cli``."""

from bvsi.cli.main import main

main()
