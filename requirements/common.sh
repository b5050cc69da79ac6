# Sourced by install.sh and install-comet.sh.

# find_python NAME NEWEST: prints a Python 3.11 to 3.NEWEST with venv, or explains how to install one.
# If $PYTHON is set, it is the only candidate. Each one is run: pyenv has names of missing versions.
find_python() {
    name=$1 newest=$2 bare=
    fits="import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $newest))"
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3.11 python3.12 python3.13 python3 \
            "$(uv python find --system ">=3.11,<3.$((newest + 1))" 2>/dev/null || :)"
    fi
    for python; do
        "$python" -c "$fits" 2>/dev/null || continue
        if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$python"
            return
        fi
        bare=${bare:-$python}
    done
    if [ -n "$bare" ]; then
        version=$("$bare" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        echo "$name: $bare has no venv, a separate package in Debian and Ubuntu; install it with" \
            "\`apt-get install python$version-venv\`" >&2
    else
        found=${PYTHON:+PYTHON=$PYTHON does not fit: $("$PYTHON" --version 2>&1 || :); }
        # uv needs no root and knows every distribution.
        echo "$name: expected Python 3.11 to 3.$newest; ${found}install it with \`uv python install 3.11\`" \
            "(and uv with \`pipx install uv\`), or select an interpreter with PYTHON=..." >&2
    fi
    return 1
}

# install_torch NAME VENV cpu|cuda: installs the version of torch that both environments use.
install_torch() {
    name=$1 python=$2/bin/python
    "$python" -c 'import sys, torch; sys.exit(torch.__version__.split("+")[0] != "2.13.0")' \
        2>/dev/null && return
    log=$2/torch.log
    : >"$log"
    if [ "$3" = cpu ]; then
        _torch "2.13.0+cpu, from the indexes that pip is configured to use" \
            --no-deps -r requirements/torch-cpu.txt && return
        _torch "2.13.0+cpu, from PyTorch's index" --retries 2 \
            --no-deps -r requirements/torch-cpu.txt \
            --index-url https://download.pytorch.org/whl/cpu && return
    fi
    _torch "2.13.0 for CUDA, from the package index; its CUDA libraries need 4 GB more on disk" \
        --constraint requirements/cuda.txt torch==2.13.0 && return
    cat "$log" >&2
    return 1
}

# _torch WHAT PIP_ARGUMENTS...: one attempt; prints why it failed and writes the details to $log.
_torch() {
    echo "$name: torch $1"
    shift
    "$python" -m pip --disable-pip-version-check -q install "$@" 2>"$log.now" && status=0 || status=$?
    cat "$log.now" >>"$log"
    [ "$status" = 0 ] ||
        echo "$name: failed: $(sed -e 's/ (from versions.*//' -e 's/.* after \(connection\)/\1/' -e 's/<.*>: //' -e 1q "$log.now")"
    return "$status"
}
