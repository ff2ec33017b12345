# Configures and builds a build directory. Sourced after common.sh.

# build_tree DIRECTORY "MESON OPTIONS" [TARGET…]   (no target: everything)
# TARGET: ninja's, or suite:NAME for the programs that a test suite runs. Prints why and fails if it
# cannot be built.
build_tree() {
  local directory=$source_root/$1 options=$2 lock status=0
  shift 2
  mkdir -p "$directory" 2>/dev/null || true
  if [ ! -w "$directory" ]; then
    say "cannot write in $directory: it is $(stat -c %U "$directory" 2>/dev/null || echo "no one")'s; run it as root, or remove it" >&2
    return 1
  fi
  exec {lock}>"$directory/.lock"
  flock -n "$lock" || { say "waiting for another build in ${directory##*/}"; interruptible flock "$lock"; }
  { configure "$directory" "$options" && build "$directory" "$@"; } || status=1
  exec {lock}>&-
  give_to_caller "$directory"
  return "$status"
}

configure() {
  local directory=$1 options=$2 how=""
  if [ -f "$directory/build.ninja" ] && ! grep -qsF "\"source\": \"$source_root\"" "$directory/meson-info/meson-info.json"; then
    say "${directory##*/} was made for another source tree: configuring it again"
    how=--wipe
  elif [ -f "$directory/build.ninja" ] && [ "$(cat "$directory/options" 2>/dev/null)" != "$options" ]; then
    how=--reconfigure
  elif [ -d "$directory/meson-private" ] && [ ! -f "$directory/build.ninja" ]; then
    rm -rf "$directory/meson-private"  # meson was interrupted
  fi
  if [ -n "$how" ] || [ ! -f "$directory/build.ninja" ]; then
    say "configuring ${directory##*/}"
    # shellcheck disable=SC2086  # options are words
    logged "$directory.setup.log" meson setup $how "$directory" "$source_root" $options || return 1
    mv "$directory.setup.log" "$directory/setup.log"
    printf '%s\n' "$options" >"$directory/options"
  fi
}

build() {
  local directory=$1 dry_run target targets=() suites=()
  shift
  for target in "$@"; do
    if [[ $target == suite:* ]]; then suites+=("${target#suite:}"); else targets+=("$target"); fi
  done
  if [ ${#suites[@]} -gt 0 ]; then
    mapfile -t -O ${#targets[@]} targets < <(/usr/bin/python3 "$source_root/tools/lib/suite_programs.py" "$directory" "${suites[@]}")
  fi
  set -- "${targets[@]}"
  if dry_run=$(ninja -C "$directory" -n "$@" 2>&1) && [[ $dry_run == *"no work to do"* ]]; then return 0; fi
  say "building in ${directory##*/} with $(build_jobs) jobs (log: ${directory##*/}/build.log)"
  if [ -t 1 ]; then
    interruptible ninja -C "$directory" -j "$(build_jobs)" "$@"
  else
    logged "$directory/build.log" ninja -C "$directory" -j "$(build_jobs)" "$@"
  fi
}
