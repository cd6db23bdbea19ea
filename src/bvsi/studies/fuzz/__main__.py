"""``python -m bvsi.studies.fuzz``."""

from bvsi.studies.fuzz.command import main

if __name__ == "__main__":  # workers of --jobs import this module
    main()
