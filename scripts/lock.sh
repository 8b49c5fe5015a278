#!/usr/bin/env bash
# Write requirements/dev.txt anew: every dependency of the project and of its development, pinned with
# hashes, for all supported Pythons. It names no index, so pip and uv use whichever they are set up with.
#
# Arguments go to `uv pip compile`, for example: scripts/lock.sh --upgrade-package ruff
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v uv || true)
[ -n "$uv" ] || uv=.venv/bin/uv
env -u PIP_FIND_LINKS -u UV_FIND_LINKS "$uv" pip compile --no-config --quiet \
  --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
  --no-emit-index-url --no-emit-find-links \
  --group dev pyproject.toml --output-file requirements/dev.txt "$@"

if grep -nE '://|^--|^-[a-z]' requirements/dev.txt; then
  echo "lock: requirements/dev.txt names an index or an address (above); it must not." >&2
  exit 1
fi
echo "lock: $(grep -cE '^[a-z]' requirements/dev.txt) packages pinned in requirements/dev.txt"
