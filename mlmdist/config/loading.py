"""From a YAML file and `key=value` words to a frozen, typed config; every mistake at once."""

import difflib
import re
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from mlmdist.errors import ConfigError

HIDDEN_MARK = "="  # a part of a mistake's path that begins so is not the user's


class Section(BaseModel):
    """A part of a config: frozen, unknown keys refused, each field with a docstring."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


Config = TypeVar("Config", bound=Section)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's scalars: PyYAML reads `1e-4` as a string, `no` as False and `1:30` as 90."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleVariableOverride]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping; YAML forbids a key that is there twice, PyYAML lets the last one win."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = [key for key in dict.fromkeys(keys) if keys.count(key) > 1 and key != "<<"]
        if twice:
            reason = f"key {twice[0]!r} is there twice"
            raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9][0-9_]*$", "-+0123456789"),
    (
        "float",
        r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
        "-+.0123456789",
    ),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("merge", r"^<<$", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def load(kind: type[Config], path: Path, overrides: list[str]) -> Config:
    """The config in `path` with `a.b=c` overrides laid over it.

    Raises ConfigError, in one line, with every mistake and its path.
    """
    values = _read(path)
    for override in overrides:
        _apply(values, override)
    return build(kind, values, str(path))


def build(kind: type[Config], values: dict[str, Any], source: str) -> Config:
    """`values` as a typed config; `source` names where they came from in an error.

    Raises ConfigError, in one line, with every mistake and its path.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        mistakes = "; ".join(_mistake(kind, detail) for detail in error.errors())
        raise ConfigError(f"{source}: {mistakes}") from None


def dump(config: Section) -> str:
    """The whole config, defaults included, as YAML that `load` reads back to an equal config."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"--config {path}: no such file; recipes stand in configs/")
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: not readable as YAML: {reason}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: holds a {type(values).__name__}; must be a mapping of keys")
    return values


def _apply(values: dict[str, Any], override: str) -> None:
    """Lay one `a.b=c` over the values; a part that is a number picks a list's element."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"override {override!r}: must have the form section.key=value")
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError:
        raise ConfigError(f"override {override!r}: {text!r} is not a YAML value") from None
    place: Any = values
    for part in parts[:-1]:
        place = _step_into(place, part, override)
    if isinstance(place, list):
        place[_element(place, parts[-1], override)] = value
    else:
        place[parts[-1]] = value


def _step_into(place: Any, part: str, override: str) -> Any:
    if isinstance(place, list):
        inner = place[_element(place, part, override)]
    else:
        inner = place.setdefault(part, {})
        if inner is None:
            inner = place[part] = {}
    if not isinstance(inner, dict | list):
        raise ConfigError(f"override {override!r}: {part!r} is the value {inner!r}, not a section")
    return inner


def _element(place: list[Any], part: str, override: str) -> int:
    if not part.isdigit() or int(part) >= len(place):
        raise ConfigError(
            f"override {override!r}: {part!r} must be a number from 0 to {len(place) - 1}"
        )
    return int(part)


def _mistake(kind: type[BaseModel], detail: Any) -> str:
    """One mistake as `a.b: what is wrong (given: value)`."""
    location = tuple(p for p in detail["loc"] if not str(p).startswith(HIDDEN_MARK))
    path = ".".join(map(str, location)) or "config"
    if detail["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(location[-1]), _fields_at(kind, location), 1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        return f"{path}: unknown key{hint}"
    if detail["type"] == "missing":
        return f"{path}: missing, must be given"
    message = detail["msg"].removeprefix("Value error, ")
    given = "" if isinstance(detail["input"], dict) else f" (given: {detail['input']!r})"
    return f"{path}: {message}{given}"


def _fields_at(kind: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """The names of the fields of the section in which `location`'s last part stands."""
    here: type[BaseModel] = kind
    for part in location[:-1]:
        field = here.model_fields.get(str(part))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        here = inner
    return list(here.model_fields)
