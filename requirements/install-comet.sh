#!/bin/sh
# Creates .venv-comet with COMET: `sh requirements/install-comet.sh cpu|cuda`.
set -eu
extra=$1
python=${PYTHON:-python3.11}
pip=".venv-comet/bin/python -m pip --disable-pip-version-check -qq"

if ! command -v "$python" >/dev/null; then
    echo "setup-comet: $python is not in the PATH; install Python 3.11 (with venv) or set PYTHON=" >&2
    exit 1
fi
[ -x .venv-comet/bin/python ] || "$python" -m venv .venv-comet

if ! .venv-comet/bin/python -c 'import torch' 2>/dev/null; then
    echo "setup-comet: torch"
    if [ "$extra" = cpu ]; then
        $pip install --no-deps -r requirements/torch-cpu.txt 2>/dev/null ||
            $pip install --no-deps -r requirements/torch-cpu.txt \
                --index-url https://download.pytorch.org/whl/cpu
    else
        $pip install torch==2.13.0
    fi
fi
echo "setup-comet: $(grep -c == requirements/comet.txt) locked packages"
$pip install --no-deps --no-compile -r requirements/comet.txt
.venv-comet/bin/python -W ignore -c 'import comet'
echo "setup-comet: done, .venv-comet ($extra); models are fetched with: hf download Unbabel/XCOMET-XL"
