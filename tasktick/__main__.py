"""`python -m tasktick`."""

from tasktick.cli import main

if __name__ == "__main__":
    main()
