#!/bin/sh
# Locks the CUDA environment for Linux on x86_64 and aarch64 and Python 3.11 to 3.13, from the public index alone:
# `sh requirements/lock.sh` keeps the versions that still fit, with --upgrade it takes the newest.
set -eu
lock=requirements/cuda.txt
unset UV_DEFAULT_INDEX UV_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_CONFIG_FILE
XDG_CONFIG_HOME=/dev/null XDG_CONFIG_DIRS=/dev/null \
    .venv/bin/uv pip compile --quiet --no-python-downloads --universal --python-version 3.11 \
    --extra cuda --extra dev --extra evaluation --extra plots --extra qr --no-annotate --no-header \
    --output-file "$lock" pyproject.toml requirements/cuda.in "$@"
# Every line repeats the markers of [tool.uv]; the remaining markers distinguish Python versions.
linux="sys_platform == 'linux'"
both="\(\(platform_machine == 'aarch64' and ((.*) and )?$linux\) or \(platform_machine == 'x86_64' and (.* and )?$linux\)\)"
sed -i -E -e "s/$both/\2/" -e "s/(python_full_version < '3\.14'|$linux)( and |$)//g" \
    -e 's/( and| ;) ?$//' "$lock"
sed -i '1i # The environment for an NVIDIA GPU: CUDA 13.0, Linux on x86_64 and aarch64, Python 3.11 to 3.13. From cuda.in and\n# pyproject.toml by `sh requirements/lock.sh`; installed with its dependencies resolved again by pip.' "$lock"
# The separate environment of `make docs`.
XDG_CONFIG_HOME=/dev/null XDG_CONFIG_DIRS=/dev/null .venv/bin/uv pip compile --quiet --no-config \
    --no-python-downloads --universal --python-version 3.11 --no-annotate --no-header \
    --output-file requirements/docs.txt requirements/docs.in "$@"
