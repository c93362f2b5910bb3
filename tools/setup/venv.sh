#!/bin/sh
# Make the virtual environment: venv.sh PYTHON FOLDER
# Needs Python 3.11 or later with venv and pip's installer; Debian keeps those two in python3-venv.
set -eu

python=$1
folder=$2
need=3.11

say() { printf 'setup: %s\n' "$*" >&2; }

apt_works() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update </dev/null && apt-get install -y --no-install-recommends "$@" </dev/null
}

has_python() { "$python" -c 'import sys' >/dev/null 2>&1; }
has_venv() { "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }
recent() { "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; }

if ! has_python && [ "$python" = python3 ] && apt_works; then
    apt_install python3 python3-venv || true
fi
if ! has_python; then
    say "there is no '$python' here. Install Python $need or later (Debian, as root: apt-get install python3 python3-venv)"
    say "or name one: make setup PYTHON=/path/to/python3"
    exit 1
fi
if ! recent; then
    say "'$python' is $("$python" --version 2>&1), and Triack needs $need or later. Name one: make setup PYTHON=python$need"
    exit 1
fi
if ! has_venv && apt_works; then
    apt_install python3-venv || true
fi
if ! has_venv; then
    say "'$python' cannot make virtual environments. Debian, as root: apt-get install python3-venv"
    exit 1
fi

"$python" -m venv --clear "$folder"
