"""Find files of the package: configurations and head sets."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.config.errors import ConfigError

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
CHECKOUT_ROOT = PACKAGE_ROOT.parent


def find_path(path: str | Path) -> Path:
    """Look up a relative path in the working directory, the checkout and the wheel."""
    wanted = _expanded(path)
    for candidate in (wanted, CHECKOUT_ROOT / wanted, PACKAGE_ROOT / "data" / wanted):
        if candidate.exists():
            return candidate.resolve()
    raise FileNotFoundError(f"{path} is not in {Path.cwd()} or {CHECKOUT_ROOT}")


def _expanded(path: str | Path) -> Path:
    """Replace ``~`` or ``~user`` at the start of a path."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{path}: the home folder of {Path(path).parts[0]} is unknown; write the whole path"
        ) from None


def read_text(path: Path) -> str:
    """Read UTF-8 text without its byte order mark; reject other encodings."""
    try:
        data = path.read_bytes()
        text, bad = data.decode("utf-8-sig"), data.find(b"\0")
    except OSError as error:
        raise ConfigError(f"{path} does not exist or cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        text, bad = "", error.start
    if bad >= 0:
        line, kind = data.count(b"\n", 0, bad) + 1, "UTF-16" if b"\0" in data else "ISO-8859-1"
        fix = f"if the encoding is {kind}, run iconv -f {kind} -t UTF-8 {path} > NEW"
        raise ConfigError(f"{path} is not UTF-8 text (line {line}); {fix}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, split only at line breaks, as the scorers do."""
    text = read_text(path).removesuffix("\n")
    return text.split("\n") if text else []


def known_resources(kind: str, suffix: str) -> list[str]:
    """Return the names of the packaged files of a resource kind, e.g. ``"agent_configs"``."""
    return sorted({item.stem for folder in _folders(kind) for item in folder.glob(f"*{suffix}")})


def find_resource(kind: str, name: str, suffixes: Sequence[str]) -> Path:
    """Find a packaged file by its name without suffix, or any file by its path.

    ``suffixes`` lists the accepted suffixes; packaged files use the first one.
    """
    path = _expanded(name)
    if path.suffix in suffixes and path.is_file():
        return path
    for folder in _folders(kind):
        candidate = folder / f"{name}{suffixes[0]}"
        if path.name == name and candidate.is_file():
            return candidate
    known = known_resources(kind, suffixes[0])
    noun = kind.replace("_", " ").rstrip("s")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise FileNotFoundError(
        f"no {noun} named {name!r}{hint} Expected one of {', '.join(known) or 'none'}, "
        f"or the path of a {suffixes[0]} file"
    )


def _folders(kind: str) -> tuple[Path, Path]:
    """Return the folders of a resource kind, in a checkout and in an installed wheel."""
    return CHECKOUT_ROOT / kind, PACKAGE_ROOT / "data" / kind
