"""python -m retoma: the same as the command."""

from retoma.cli import main

if __name__ == "__main__":
    main(prog_name="retoma")
