#!/usr/bin/env bash
# Make .venv ready: the locked dependencies and the project itself (editable).
#
# Needs Python 3.11 or newer and nothing else; uses uv when it is there, because it is faster. Does
# nothing when .venv was already made from the same lock. PYTHON=/path/to/python chooses another one.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=requirements/dev.txt
stamp=.venv/.pulseweave-stamp

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local name
  for name in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if command -v "$name" >/dev/null 2>&1 && new_enough "$name"; then
      command -v "$name"
      return
    fi
  done
  die "no Python 3.11 or newer was found. Install one (Debian 12 or later: apt-get install python3
       python3-venv), or name it: make PYTHON=/path/to/python3.11 ..."
}

# Debian ships Python without the part that makes virtual environments.
install_venv_module() {
  local python=$1 version
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing python$version-venv"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "python$version-venv" >/dev/null
  else
    die "$python has no ensurepip, so it cannot make a virtual environment. Install it
       (Debian: sudo apt-get install python$version-venv), or install uv, and run this again."
  fi
}

make_venv() {
  local python
  python=$(find_python)
  say "making .venv with $("$python" --version) ($python)"
  if [ -n "$uv" ]; then
    "$uv" venv --quiet --clear --python "$python" .venv
  else
    "$python" -c 'import ensurepip, venv' 2>/dev/null || install_venv_module "$python"
    "$python" -m venv --clear .venv
  fi
}

install_locked() {
  say "installing the locked dependencies"
  if [ -n "$uv" ]; then
    "$uv" pip install --quiet --python .venv/bin/python --require-hashes -r "$lock"
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
  else
    local pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet install)
    "${pip[@]}" --require-hashes -r "$lock"
    "${pip[@]}" --no-deps --no-build-isolation -e .
  fi
}

# Two calls at once (make check beside make test) must not install over each other.
if command -v flock >/dev/null 2>&1; then
  exec 9<pyproject.toml
  flock 9
fi

fingerprint() { { cat "$lock" pyproject.toml; .venv/bin/python --version; } | cksum; }

usable() { [ -x .venv/bin/python ] && new_enough .venv/bin/python; }

if usable && [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ]; then
  exit 0
fi
uv=$(command -v uv || true)
if ! usable || { [ -z "$uv" ] && ! .venv/bin/python -m pip --version >/dev/null 2>&1; }; then
  make_venv
fi
install_locked
fingerprint >"$stamp"
say ".venv is ready"
