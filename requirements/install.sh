#!/bin/sh
# Creates .venv and installs the locked environment: `sh requirements/install.sh cpu|cuda`.
set -eu
extra=$1
python=${PYTHON:-python3.11}
pip=".venv/bin/python -m pip --disable-pip-version-check -qq"

if ! command -v "$python" >/dev/null; then
    echo "setup: $python is not in the PATH; install Python 3.11 (with venv) or set PYTHON=" >&2
    exit 1
fi
[ -x .venv/bin/python ] || "$python" -m venv .venv

if [ "$extra" = cpu ]; then
    if ! .venv/bin/python -c 'import sys, torch; sys.exit(torch.__version__ != "2.13.0+cpu")' 2>/dev/null
    then
        echo "setup: torch 2.13.0+cpu"
        $pip install --no-deps -r requirements/torch-cpu.txt 2>/dev/null ||
            $pip install --no-deps -r requirements/torch-cpu.txt \
                --index-url https://download.pytorch.org/whl/cpu
    fi
    echo "setup: $(grep -c == requirements/cpu.txt) locked packages"
    $pip install --no-deps --no-compile -r requirements/cpu.txt
else
    echo "setup: vLLM with CUDA and what it needs"
    $pip install -r requirements/cuda.txt
fi
echo "setup: alignatt_agent"
$pip install --no-deps --no-build-isolation --editable .
echo "setup: done, .venv ($extra)"
