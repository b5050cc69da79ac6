#!/bin/sh
# Creates .venv and installs the locked environment: `sh requirements/install.sh cpu|cuda`.
set -eu
extra=$1
. requirements/common.sh
pip=".venv/bin/python -m pip --disable-pip-version-check -qq"

if [ ! -x .venv/bin/python ]; then
    python=$(find_python setup 13)
    "$python" -m venv .venv
fi
echo "setup: $(.venv/bin/python --version) in .venv"

if [ "$extra" = cpu ]; then
    install_torch setup .venv cpu
    echo "setup: $(grep -c == requirements/cpu.txt) locked packages"
    $pip install --no-deps --no-compile -r requirements/cpu.txt
else
    echo "setup: vLLM with CUDA and its dependencies, about 5 GB to download and 10 GB on disk"
    $pip install -r requirements/cuda.txt
fi
echo "setup: alignatt_agent"
$pip install --no-deps --no-build-isolation --editable .
echo "setup: done, .venv ($extra)"
