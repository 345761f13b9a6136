# Shared by the scripts of this folder; sourced, not run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CAIRN_HOME=${CAIRN_HOME:-$HOME/.cairn}
# Checkouts in different folders share the compiler cache.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

# Packages of Debian 12. Keep in step with cmake/CairnDependencies.cmake.
packages=(
  g++ cmake ninja-build pkg-config ccache mold curl ca-certificates python3 python3-pip python3-venv
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev librocksdb-dev libsqlite3-dev
  libicu-dev libstemmer-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libspdlog-dev prometheus-cpp-dev libboost-dev
  libgumbo-dev libcmark-gfm-dev libcmark-gfm-extensions-dev libzip-dev libre2-dev libxxhash-dev libssl-dev
)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev libsimde-dev clang-format-14 clang-tidy-14)

say() { printf '\n\033[1m== %s\033[0m\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Installs what is missing of the packages named, saying which; needs the network only then.
install_packages() {
  . /etc/os-release 2>/dev/null || true
  if [ "${ID:-}" != debian ] || [ "${VERSION_ID:-}" != 12 ]; then
    printf '%s\n' "This script installs packages on Debian 12 only; this is ${PRETTY_NAME:-an unknown system}." \
      "Needed: a C++20 compiler (g++ 12 or newer), CMake 3.25 or newer, Ninja, and the development packages of" \
      "  ${*}" \
      "With those in place: cmake --preset release && cmake --build --preset release" >&2
    exit 1
  fi
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing with apt-get: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "installing packages needs root or sudo; missing: ${missing[*]}"
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Configures and builds a preset: build_preset NAME [targets...]
build_preset() {
  local preset=$1
  shift
  (cd "$root" && cmake --preset "$preset" -Wno-dev >"$root/build-$preset.log" 2>&1) ||
    { cat "$root/build-$preset.log" >&2; die "configuring preset $preset failed"; }
  rm -f "$root/build-$preset.log"
  cmake --build "$root/build/$preset" -j "$(nproc)" ${@:+--target "$@"}
}
