# Configures and builds a build directory. Sourced after common.sh.

# build_tree DIRECTORY "MESON OPTIONS" [TARGET…]   (no target: everything)
build_tree() {
  local directory=$source_root/$1 options=$2
  shift 2
  mkdir -p "$directory"
  if [ ! -f "$directory/build.ninja" ]; then
    say "configuring ${directory##*/}"
    # shellcheck disable=SC2086  # options are words
    logged "$directory/setup.log" meson setup "$directory" "$source_root" $options ||
      die "cannot configure the build"
  fi
  if [ -n "$(ninja -C "$directory" -n "$@" 2>/dev/null | grep -v 'no work to do\|Entering directory')" ]; then
    say "building in ${directory##*/} with $(build_jobs) jobs (log: ${directory#"$source_root/"}/build.log)"
    if [ -t 1 ]; then
      ninja -C "$directory" -j "$(build_jobs)" "$@" || die "the build failed"
    else
      logged "$directory/build.log" ninja -C "$directory" -j "$(build_jobs)" "$@" || die "the build failed"
    fi
  fi
  give_to_caller "$directory"
}
