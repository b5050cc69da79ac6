#!/bin/sh
# Creates .venv-comet with COMET: `sh requirements/install-comet.sh cpu|cuda`.
set -eu
extra=$1
. requirements/common.sh

if [ ! -x .venv-comet/bin/python ]; then
    python=$(find_python setup-comet 12) # numpy 1 has no wheels for 3.13
    "$python" -m venv .venv-comet
fi
install_torch setup-comet .venv-comet "$extra"
echo "setup-comet: $(grep -c == requirements/comet.txt) locked packages"
.venv-comet/bin/python -m pip --disable-pip-version-check -qq install \
    --no-deps --no-compile -r requirements/comet.txt
.venv-comet/bin/python -W ignore -c 'import comet'
echo "setup-comet: done, .venv-comet ($extra); to fetch a model, run: hf download Unbabel/XCOMET-XL"
