"""Pack what a GPU machine without network lacks, in parts that are carried one by one.

The folder OUT then holds bundle.00, bundle.01, ... and MANIFEST.json with versions and hashes. On
the GPU machine, when all parts are in one folder DIR:
    python3 -m lab.gpu.unpack DIR /tmp/site
    PYTHONPATH=/tmp/site python3 -m lab.gpu --output OUT

Example:
  for Python 3.12:
    python -m lab.gpu.bundle --output outputs/bundle
"""

import argparse
import fnmatch
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from lab import commands

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOCK = ROOT / "requirements" / "cuda.txt"
VLLM = "vllm"
PART_MB = 27
PLATFORMS = ("manylinux_2_35", "manylinux_2_34", "manylinux_2_31", "manylinux_2_28",
             "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014",
             "manylinux_2_12", "manylinux2010", "manylinux1")  # fmt: skip
KEPT_OPERATORS = (
    "vllm/_C_stable_libtorch.abi3.so", "vllm/cumem_allocator.abi3.so", "vllm/fs_io_C.abi3.so",
    "vllm/spinloop.abi3.so",
)  # fmt: skip
"""Built on torch's stable ABI: they load under other versions of torch than the pinned one."""

LEFT_OUT = ("vllm/*.so", "vllm/*.so.*", "vllm/vllm_flash_attn/*.so", "vllm/third_party/deep_gemm/*",
            "vllm/third_party/flashmla/*", "vllm/model_executor/layers/fused_moe/configs/*",
            "vllm/**/assets/*", "*.cu", "*.cuh", "*.cpp", "*.pyc")  # fmt: skip
"""Of vLLM: operators that our models do not need (Triton attention needs none), and data."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.gpu.bundle", __doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="OUT", help="folder")
    parser.add_argument("--python", default="3.12", help="of the GPU machine; default %(default)s")
    text = "largest part in MB; default %(default)s"
    parser.add_argument("--part-mb", type=float, default=PART_MB, metavar="MB", help=text)
    return parser


def main() -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args()
    output: Path = arguments.output.resolve()
    wheels, site = output / "wheels", output / "site"
    pins = dict(locked())
    wanted = [VLLM, *carried()]
    missing = [name for name in wanted if name not in pins]
    if missing:
        print(f"bundle: {LOCK} does not pin {', '.join(missing)}", file=sys.stderr)
        return 2
    shutil.rmtree(site, ignore_errors=True)
    for path in (wheels, site):
        path.mkdir(parents=True, exist_ok=True)
    download([f"{name}=={pins[name]}" for name in wanted], wheels, arguments.python)
    for wheel in sorted(wheels.glob("*.whl")):
        unpack_wheel(wheel, site)
    add_metadata(output, site)
    parts = pack(site, output, int(arguments.part_mb * 1e6))
    write_manifest(output, parts, arguments.python, {name: pins[name] for name in wanted})
    for path in parts:
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


def locked() -> Iterator[tuple[str, str]]:
    """Yield names and versions of the lock."""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        found = re.match(r"([A-Za-z0-9._-]+)==([^ ;]+)", line)
        if found:
            yield re.sub(r"[-_.]+", "-", found[1]).lower(), found[2]


def carried() -> list[str]:
    """Return the names in ``carried.txt``."""
    lines = (HERE / "carried.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def download(requirements: list[str], wheels: Path, python: str) -> None:
    """Fetch wheels for the other machine from wherever pip is set up to look."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    for platform in PLATFORMS:
        command += ["--platform", f"{platform}_x86_64"]
    subprocess.run([*map(str, command), *requirements], check=True)


def unpack_wheel(wheel: Path, site: Path) -> None:
    """Extract a wheel, without what is left out."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            unwanted = any(fnmatch.fnmatch(name, pattern) for pattern in LEFT_OUT)
            is_vllm = name.startswith("vllm/")
            if not (is_vllm and unwanted and name not in KEPT_OPERATORS):
                archive.extract(name, site)


def add_metadata(output: Path, site: Path) -> None:
    """Add this package's own metadata: engines find its plug-in by it. Its code is the checkout."""
    folder = output / "own"
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site, [name for name in archive.namelist() if ".dist-info/" in name])


def pack(site: Path, output: Path, size: int) -> list[Path]:
    """Compress a folder and cut the stream into parts of ``size`` bytes at most."""
    whole = output / "bundle.tar.xz"
    with tarfile.open(whole, "w:xz", preset=3) as tar:
        tar.add(site, ".")
    for old in output.glob("bundle.[0-9][0-9]"):
        old.unlink()
    parts = []
    with whole.open("rb") as stream:
        while data := stream.read(size):
            parts.append(output / f"bundle.{len(parts):02d}")
            parts[-1].write_bytes(data)
    whole.unlink()
    return parts


def write_manifest(output: Path, parts: list[Path], python: str, packages: dict[str, str]) -> None:
    """Write down versions, and hashes for ``unpack``."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in parts}
    manifest = {"python": python, "packages": packages, "parts": hashes}
    commands.write_json(output / "MANIFEST.json", manifest)


if __name__ == "__main__":
    sys.exit(main())
