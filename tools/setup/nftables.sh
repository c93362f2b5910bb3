#!/bin/sh
# See to what some tests need on Linux: nft, which drops packets in a network namespace of the test's own; ip, which
# brings up its loopback; strace, which fails system calls; and a PostgreSQL server and a mosquitto, which tests run in
# folders of their own. Installed where that is possible; without them those tests are skipped, with the reason.
set -eu

[ "$(uname -s)" = Linux ] || exit 0

say() { printf 'setup: %s\n' "$*" >&2; }

PATH=$PATH:/usr/sbin:/sbin
packages=
command -v nft >/dev/null 2>&1 || packages=nftables
command -v ip >/dev/null 2>&1 || packages="${packages:+$packages }iproute2"
command -v strace >/dev/null 2>&1 || packages="${packages:+$packages }strace"
ls /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb /usr/local/pgsql/bin/initdb 2>/dev/null | grep -q . ||
    packages="${packages:+$packages }postgresql"
command -v mosquitto_pub >/dev/null 2>&1 || packages="${packages:+$packages }mosquitto mosquitto-clients"
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing $packages, for the tests on real sockets, disks, databases and brokers"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # one word for each package
    apt-get update </dev/null >/dev/null && apt-get install -y --no-install-recommends $packages </dev/null >/dev/null &&
        exit 0
    say "could not be installed; the tests that need them are skipped"
else
    say "without $packages the tests that need them are skipped (Debian, as root: apt-get install $packages)"
fi
