"""The script that lets a shell complete our commands and flags; what can be completed, it asks us each time."""

import click
from click.shell_completion import get_completion_class

PROGRAM = "tasktick"
VARIABLE = "_TASKTICK_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and flags in a SHELL.

    \b
    Examples:
      eval "$(tasktick completion bash)"            # in ~/.bashrc
      eval "$(tasktick completion zsh)"             # in ~/.zshrc, after compinit
      tasktick completion fish > ~/.config/fish/completions/tasktick.fish
    """
    maker = get_completion_class(shell)
    assert maker is not None, "click knows the shells of our choice"
    click.echo(maker(context.find_root().command, {}, PROGRAM, VARIABLE).source())
