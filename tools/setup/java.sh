#!/bin/sh
# See to the Java that Spark needs (`triack replay`): use the machine's own, or install one where that is possible.
# Looks where Spark looks: JAVA_HOME when it is set, else the `java` on PATH.
set -eu

need=17
package=openjdk-17-jre-headless

say() { printf 'setup: %s\n' "$*" >&2; }

if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    source="JAVA_HOME ($JAVA_HOME)"
else
    java=java
    source="the java on PATH"
fi

# Prints 17 for `openjdk version "17.0.15" ...`, 1 for the old `java version "1.8.0_402"`, and nothing without Java.
major() {
    command -v "$java" >/dev/null 2>&1 || return 0
    "$java" -version 2>&1 </dev/null | sed -n 's/^[^"]* version "\([0-9]*\).*/\1/p' | head -n 1
}

enough() {
    found=$(major)
    [ -n "$found" ] && [ "$found" -ge "$need" ]
}

enough && exit 0

# An installed package would not change what JAVA_HOME says, so that is the user's to mend.
if [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing $package, for Spark"
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update </dev/null && apt-get install -y --no-install-recommends "$package" </dev/null; then
        enough && exit 0
    fi
    say "$package could not be installed, or is not what 'java' runs"
fi

if [ -n "$found" ]; then
    say "Spark needs Java $need or later, and $source is older (major version $found)."
else
    say "Spark needs Java $need or later, and there is none: looked at $source."
fi
if [ -n "${JAVA_HOME:-}" ]; then
    say "Point JAVA_HOME at Java $need or later, or unset it. To install one:"
else
    say "Install one, then run make again:"
fi
say "  Debian, Ubuntu  apt-get install --no-install-recommends $package   (as root)"
say "  Fedora          dnf install java-21-openjdk-headless               (as root)"
say "  macOS           brew install openjdk@17"
say "All else is set up. 'triack replay --engine local' works without Java."
exit 1
