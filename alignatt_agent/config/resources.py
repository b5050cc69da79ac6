"""Find files of the package: configurations and head sets."""

import difflib
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.config.errors import ConfigError

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
CHECKOUT_ROOT = PACKAGE_ROOT.parent


def find_path(path: str | Path) -> Path:
    """Look up a relative path in the working directory, the checkout and the wheel."""
    relative = _expanded(path)
    for folder in (Path(), CHECKOUT_ROOT, PACKAGE_ROOT / "data"):
        candidate = folder / relative
        if candidate.exists():
            resolved = candidate.resolve()
            # A shell's <(command) is a link, e.g. /dev/fd/63, to a pipe, which has no path.
            return resolved if resolved.exists() else candidate
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
    except OSError as error:
        raise ConfigError(f"{path} does not exist or cannot be read ({error.strerror})") from None
    try:
        text = data.decode("utf-8-sig")
        first_bad_byte = data.find(b"\0")
    except UnicodeDecodeError as error:
        text = ""
        first_bad_byte = error.start
    if first_bad_byte >= 0:
        line = data.count(b"\n", 0, first_bad_byte) + 1
        encoding = _probable_encoding(data)
        fix = f"if the encoding is {encoding}, run iconv -f {encoding} -t UTF-8 {path} > NEW"
        raise ConfigError(f"{path} is not UTF-8 text (line {line}); {fix}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _probable_encoding(data: bytes) -> str:
    """Return the most probable encoding of text that is not UTF-8, for iconv."""
    # Half of the bytes of Latin text in UTF-16 are zero. Chinese text has none, but a mark.
    if b"\0" in data or data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "UTF-16"
    # Windows has quotation marks, dashes and the euro where ISO-8859-1 has control characters.
    if re.search(rb"[\x80-\x9f]", data):
        return "WINDOWS-1252"
    return "ISO-8859-1"


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, split only at line breaks, as the scorers do."""
    text = read_text(path).removesuffix("\n")
    if not text:
        return []
    return text.split("\n")


def known_resources(kind: str, suffix: str) -> list[str]:
    """Return the names of the packaged files of a resource kind, e.g. ``"agent_configs"``."""
    names: set[str] = set()
    for folder in _folders(kind):
        names.update(file.stem for file in folder.glob(f"*{suffix}"))
    return sorted(names)


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
    packaged = known_resources(kind, suffixes[0])
    noun = kind.replace("_", " ").rstrip("s")
    hint = "."
    if nearest := difflib.get_close_matches(name, packaged, n=1):
        hint = f"; did you mean {nearest[0]}?"
    raise FileNotFoundError(
        f"no {noun} named {name!r}{hint} Expected one of {', '.join(packaged) or 'none'}, "
        f"or the path of a {suffixes[0]} file"
    )


def _folders(kind: str) -> tuple[Path, Path]:
    """Return the folders of a resource kind, in a checkout and in an installed wheel."""
    return CHECKOUT_ROOT / kind, PACKAGE_ROOT / "data" / kind
