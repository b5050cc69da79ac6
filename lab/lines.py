"""Compare the lines of Python in each package with the limits in ``pyproject.toml``.

A package can grow only if the same change raises its limit, so reviewers see the growth. Files with
more than 350 lines are only reported, because no file should be split just for the limit.
  python -m lab.lines
  python -m lab.lines --write     (lower the limits to the current lines; raise limits by hand)
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "[tool.alignatt.lines]"
LONGEST = 350


def rooms() -> dict[str, int]:
    """Return lines by folder of the package, its top level, tests and lab."""
    package = ROOT / "alignatt_agent"
    found = {"alignatt_agent": sum(map(_lines, package.glob("*.py")))}
    for folder in sorted(path for path in package.iterdir() if any(path.rglob("*.py"))):
        found[f"alignatt_agent/{folder.name}"] = sum(map(_lines, folder.rglob("*.py")))
    found["tests"] = sum(map(_lines, (ROOT / "tests").rglob("*.py")))
    found["lab"] = sum(map(_lines, (ROOT / "lab").rglob("*.py")))
    return found


def main(argv: list[str] | None = None) -> int:
    """Print the packages; return 1 if one exceeds its limit."""
    project = ROOT / "pyproject.toml"
    text, found = project.read_text(encoding="utf-8"), rooms()
    limits = tomllib.loads(text)["tool"]["alignatt"]["lines"]
    if (sys.argv[1:] if argv is None else argv) == ["--write"]:
        limits = {room: min(lines, limits.get(room, lines)) for room, lines in found.items()}
        table = "".join(f'"{room}" = {lines}\n' for room, lines in limits.items())
        text = re.sub(rf"{re.escape(HEADER)}\n(?:\".*\n)*", f"{HEADER}\n{table}", text)
        project.write_text(text, encoding="utf-8")
    over = [room for room, lines in found.items() if lines > limits.get(room, 0)]
    for room, lines in found.items():
        print(f"{lines:7,} of {limits.get(room, 0):7,}  {room}")
    package = sum(lines for room, lines in found.items() if room.startswith("alignatt_agent"))
    print(f"{package:7,} in the package, {sum(found.values()):,} in total")
    for room in over:
        print(f"{room}: exceeds its limit in pyproject.toml, {HEADER}", file=sys.stderr)
    files = [
        path for room in ("alignatt_agent", "tests", "lab") for path in (ROOT / room).rglob("*.py")
    ]
    for path in files:
        if _lines(path) > LONGEST:
            print(f"{path}: more than {LONGEST} lines; consider splitting it", file=sys.stderr)
    return 1 if over else 0


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    sys.exit(main())
