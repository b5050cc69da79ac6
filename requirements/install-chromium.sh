#!/bin/sh
# Installs the browser for tests/serve/test_page.py (Debian, Ubuntu; about 400 MB).
# Without a browser, these tests are skipped with a message.
set -eu
command -v chromium >/dev/null && exit 0
command -v apt-get >/dev/null || { echo "apt-get not found: install chromium by hand" >&2; exit 1; }
root=$([ "$(id -u)" = 0 ] || echo sudo)
$root apt-get update -qq
$root apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk
