"""``python -m robustruct`` is the command ``robustruct``."""

from robustruct.cli.app import main

if __name__ == "__main__":
    main()
