#!/bin/sh
# Creates .venv-docs, which builds the documentation: `sh requirements/install-docs.sh`.
set -eu
. requirements/common.sh
if ! [ .venv-docs/.ready -nt requirements/docs.txt ]; then
    [ -x .venv-docs/bin/python ] || "$(find_python docs 13)" -m venv .venv-docs
    .venv-docs/bin/python -m pip --disable-pip-version-check -qq install -r requirements/docs.txt
    touch .venv-docs/.ready
fi
