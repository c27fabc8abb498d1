"""Every command and every setting is in the reference."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pydantic import AliasChoices

import retoma.cli
from retoma.system.settings import Settings

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def read(page: str) -> str:
    file = REFERENCE / page
    assert file.is_file(), f"docs/reference/{page} is not written yet"
    return file.read_text(encoding="utf-8")


def commands(group: click.Group, path: str) -> Iterator[str]:
    with click.Context(group, info_name=path) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None, f"{path} lists {name} and does not have it"
            if isinstance(command, click.Group):
                yield from commands(command, f"{path} {name}")
            else:
                yield f"{path} {name}"


def root() -> click.Group:
    groups = [retoma.cli.main, *vars(retoma.cli).values()]
    return next(each for each in groups if isinstance(each, click.Group))


def variables(name: str) -> set[str]:
    """The environment variables that fill the setting *name*."""
    alias = Settings.model_fields[name].validation_alias
    if isinstance(alias, AliasChoices):
        return {str(choice) for choice in alias.choices}
    return {str(alias) if alias else f"{Settings.model_config.get('env_prefix', '')}{name}".upper()}


@pytest.mark.parametrize("command", sorted(commands(root(), "retoma")))
def test_a_command_is_in_the_reference(command: str) -> None:
    assert command in read("cli.md")


@pytest.mark.parametrize("command", sorted(commands(root(), "retoma")))
def test_a_command_says_what_it_does(command: str) -> None:
    found: click.Command | None = root()
    for name in command.split()[1:]:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name)

    assert found is not None
    assert found.help


@pytest.mark.parametrize("setting", sorted(Settings.model_fields))
def test_a_setting_is_in_the_reference(setting: str) -> None:
    page = read("settings.md")

    assert [name for name in variables(setting) if name not in page] == []
