#!/usr/bin/env bash
# Make sure that the server programs of PostgreSQL and MariaDB are there: the tests start their own
# throw-away servers from them. Root on Debian installs what is missing and starts no service; anybody
# else is told exactly what to install.
set -euo pipefail

say() { echo "databases: $*"; }

postgres_initdb() {
  local found
  for found in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb /usr/local/pgsql/bin/initdb; do
    if [ -x "$found" ]; then
      echo "$found"
      return
    fi
  done
  command -v initdb || true
}

mariadb_server() {
  local name found
  for name in mariadbd mysqld; do
    for found in "$(command -v "$name" || true)" "/usr/sbin/$name" "/usr/libexec/$name" "/usr/local/sbin/$name"; do
      if [ -n "$found" ] && [ -x "$found" ] && "$found" --version 2>/dev/null | grep -qi mariadb; then
        echo "$found"
        return
      fi
    done
  done
}

missing=()
[ -n "$(postgres_initdb)" ] || missing+=(postgresql)
[ -n "$(mariadb_server)" ] || missing+=(mariadb-server)
if [ ${#missing[@]} = 0 ]; then
  say "PostgreSQL ($(postgres_initdb)) and MariaDB ($(mariadb_server)) are there"
  exit 0
fi

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  {
    say "the tests need the server programs of: ${missing[*]} (Debian's package names)."
    say "They start servers of their own from them and use no service of the machine. Install them:"
    say "  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install ${missing[*]}"
    say "  elsewhere:       PostgreSQL 13 or newer (initdb, postgres) and MariaDB 10.6 or newer"
    say "                   (mariadbd, mariadb-install-db) on the PATH"
  } >&2
  exit 1
fi

# Debian starts a service as soon as it is installed, unless this file says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
say "installing ${missing[*]} (no service is started)"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null

if [ -z "$(postgres_initdb)" ] || [ -z "$(mariadb_server)" ]; then
  say "apt-get installed ${missing[*]}, but the server programs are still not found" >&2
  exit 1
fi
say "PostgreSQL ($(postgres_initdb)) and MariaDB ($(mariadb_server)) are there"
