#!/bin/sh
# Installs the browser that tests/serve/test_page.py drives (Debian, Ubuntu; about 400 MB).
# Without it those tests are not run and say so.
set -eu
command -v chromium >/dev/null && exit 0
command -v apt-get >/dev/null || { echo "no apt-get here: install chromium by hand" >&2; exit 1; }
root=$([ "$(id -u)" = 0 ] || echo sudo)
$root apt-get update -qq
$root apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk
