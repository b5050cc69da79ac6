#!/bin/sh
# Fetches the checkpoints at their pinned revisions: sh image/fetch_weights.sh image/weights
# Mount the folder with -v FOLDER:/weights:ro, or build with --build-arg WEIGHTS=baked.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: sh fetch_weights.sh FOLDER" >&2
    exit 2
fi
mkdir -p "$1"
HF_HOME=$(cd "$1" && pwd)/huggingface
export HF_HOME
{{ commands | join("\n") or "echo 'all checkpoints are already in image/weights'" }}
