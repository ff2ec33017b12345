# Makes the tree that tools/make-bundle packs. Sourced after common.sh.
#
#   bin/NAME              tools/lib/launcher.c, which runs libexec/NAME by one of the two loaders
#   libexec/NAME          the program
#   libexec/machine/NAME  a link to the machine's dynamic loader, used if it is new enough
#   libexec/loader/NAME   a link to the bundle's loader in lib/c/
#   lib/c/                the C library
#   lib/                  all other libraries, under the names that programs load; DPDK's drivers
#   tests/NAME            like bin/NAME, for test programs
#   bin/itif-gpu-check    tools/gpu-check, which runs the tests
#   tests/data/           data of the tests
#   conf/ share/doc/ COMMIT LICENSE README.txt

# Libraries that the target machine provides.
bundle_left_out='^lib(cuda|cublas|cudnn|nvidia|nvrtc|nvJitLink)'

# Parts of the C library that our programs do not load but the GPU driver may. An older system's
# would not fit ours.
bundle_c_library=(libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libutil.so.1)
# All parts of the C library. They work only together and with their loader.
bundle_is_c_library='^(ld-linux-x86-64|lib(c|m|mvec|dl|pthread|rt|resolv|util|anl|nss_[a-z]+))\.so\.'

# bundle_make TREE PROGRAM… [-- TEST_PROGRAM…]
# REQUIRES: the programs run on this machine.
bundle_make() {
  local tree=$1 folder=bin path drivers=()
  shift
  umask 022
  mkdir -p "$tree"/{lib/c,libexec/loader,libexec/machine,conf,share/doc}
  bundle_find_drivers "$1"
  bundle_compile_launchers "${tree%/*}"
  for path in "$@"; do
    if [ "$path" = -- ]; then
      folder=tests
    else
      bundle_add_program "$tree" "$folder" "$path"
    fi
  done
  bundle_add_libraries "$tree" "$@"
  bundle_add_texts "$tree"
}

# bundle_libraries OBJECT…: prints "NAME PATH" of each library that the objects need; programs load
# it by NAME.
bundle_libraries() {
  local lines missing
  lines=$(ldd "$@" 2>/dev/null | awk -v left_out="$bundle_left_out" '
    $1 ~ left_out {next}
    $2 == "=>" {print $1, $3}
    $1 ~ /^\/.*\/ld-linux/ {name = $1; sub(".*/", "", name); print name, $1}' | sort -u) ||
    die "ldd failed for one of: $*"
  missing=$(awk '$2 == "not" {printf " %s", $1}' <<<"$lines")
  [ -z "$missing" ] || die "libraries are missing here:$missing"
  printf '%s\n' "$lines"
}

# Sets `drivers`, the paths of the drivers in bundle-drivers.txt, and driver_folder, EAL's folder of
# drivers.
bundle_find_drivers() {
  local eal name names
  eal=$(bundle_libraries "$1" | awk '$1 ~ /^librte_eal\.so\./ {print $2}')
  [ -n "$eal" ] || die "$1 is not linked with DPDK's shared libraries"
  driver_folder=$(grep -zaoE '^DPDK_PLUGIN_PATH=.*' "$eal" | tr -d '\0')
  driver_folder=${driver_folder#*=}
  mapfile -t names < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$source_root/tools/lib/bundle-drivers.txt")
  for name in "${names[@]}"; do
    drivers+=("$driver_folder/librte_$name.so.${eal##*.so.}")
    [ -f "${drivers[-1]}" ] || die "${drivers[-1]} is missing, a driver that tools/lib/bundle-drivers.txt lists"
  done
}

# bundle_compile_launchers DIRECTORY: compiles launcher and launcher-dpdk.
bundle_compile_launchers() {
  local directory=$1 names=("${drivers[@]##*/}") source=$source_root/tools/lib/launcher.c
  local command=(cc -static -Os -s -Wall -Wextra "$source" -o)
  local why="cannot compile the launcher (is libc6-dev installed?)" list
  list=$(IFS=: && printf '%s' "${names[*]}")
  logged "$directory/cc.log" "${command[@]}" "$directory/launcher" '-DDRIVERS=""' || die "$why"
  logged "$directory/cc.log" "${command[@]}" "$directory/launcher-dpdk" "-DDRIVERS=\"$list\"" || die "$why"
}

# bundle_add_program TREE FOLDER PATH
bundle_add_program() {
  local tree=$1 name=${3##*/} launcher=launcher libraries
  mkdir -p "$tree/$2"
  strip -o "$tree/libexec/$name" "$3" || die "cannot strip $3"
  chmod 755 "$tree/libexec/$name"
  ln -s ../../lib/c/ld-linux-x86-64.so.2 "$tree/libexec/loader/$name"
  ln -s /lib64/ld-linux-x86-64.so.2 "$tree/libexec/machine/$name"
  libraries=$(bundle_libraries "$3")
  case $libraries in *librte_eal.so.*) launcher="launcher-dpdk" ;; esac
  ln "${tree%/*}/$launcher" "$tree/$2/$name"  # hard links: one copy, in the archive, too
}

# bundle_add_libraries TREE [OBJECT | --]…
bundle_add_libraries() {
  local tree=$1 objects=() object name path lines folder
  shift
  for object in "$@" "${drivers[@]}"; do
    if [ "$object" != -- ]; then objects+=("$object"); fi
  done
  lines=$(bundle_libraries "${objects[@]}") || exit 1
  folder=$(awk '$1 == "libc.so.6" {sub("/[^/]*$", "", $2); print $2}' <<<"$lines")
  for name in "${bundle_c_library[@]}"; do lines+=$'\n'"$name $folder/$name"; done
  for path in "${drivers[@]}"; do lines+=$'\n'"${path##*/} $path"; done
  lines=$(sort -u <<<"$lines")
  while read -r name path; do
    if [[ $name =~ $bundle_is_c_library ]]; then name=c/$name; fi
    install -m 644 "$path" "$tree/lib/$name"
  done <<<"$lines"
  strip --strip-unneeded "$tree"/lib/*.so* "$tree"/lib/c/* || die "cannot strip the libraries"
  chmod 755 "$tree/lib/c/ld-linux-x86-64.so.2"
  bundle_forget_driver_folder "$tree"/lib/librte_eal.so.*
  bundle_add_licences "$tree" "${lines//$'\n'/ }"
}

# Clears the drivers' folder in librte_eal. On a machine with DPDK in the same folder, EAL would
# load those drivers in addition to the bundle's. An empty name makes EAL load none.
bundle_forget_driver_folder() {
  [ "$(grep -zaxcF "$driver_folder" "$1")" = 1 ] || die "${1##*/} does not contain its drivers' folder exactly once"
  sed -z -i "s|^$driver_folder\$|\\x00${driver_folder:1}|" "$1"
  if grep -zaxqF "$driver_folder" "$1"; then die "${1##*/} still contains its drivers' folder"; fi
}

# bundle_add_licences TREE "NAME PATH NAME PATH…": adds the licences of the libraries' Debian
# packages, and of those that are compiled into the programs.
bundle_add_licences() {
  local tree=$1 paths=() packages package path copyright
  # shellcheck disable=SC2086  # names and paths are words
  for path in $(printf '%s\n' $2 | grep / | xargs realpath); do
    paths+=("$path" "${path#/usr}")  # dpkg lists a file under one of the two
  done
  packages=$({
    dpkg-query -S "${paths[@]}" 2>/dev/null |
      sed -e '/^diversion/d' -e 's/: .*//' -e 's/:[a-z0-9]*//g' | tr -s ', ' '\n'
    printf '%s\n' libc6-dev libcli11-dev nlohmann-json3-dev cppzmq-dev
    if [ -d "$tree/tests" ]; then echo libgtest-dev; fi
  } | sort -u)
  for package in $packages; do
    copyright=/usr/share/doc/$package/copyright
    if [ ! -r "$copyright" ]; then
      say "no $copyright: the bundle lacks that licence" >&2
      continue
    fi
    install -D -m 644 "$copyright" "$tree/share/doc/$package/copyright"
    dpkg-query -W -f '${Package} ${Version} (source: ${source:Package} ${source:Version})\n' "$package" |
      head -n 1 >>"$tree/share/doc/packages.txt"
  done
  cp -RL /usr/share/common-licenses "$tree/share/doc/common-licenses"
  # The launcher is linked with the C library statically: with its source it can be linked with
  # another.
  install -m 644 "$source_root/tools/lib/launcher.c" "$tree/share/doc/launcher.c"
}

bundle_add_gpu_check() {
  install -m 755 "$source_root/tools/gpu-check" "$1/bin/itif-gpu-check"
  mkdir -p "$1/tests/data" "$1/tests/reference"
  install -m 644 "$source_root/tests/reference/bert_in_torch.py" "$1/tests/reference"
  cp -R "$source_root"/tests/data/{goldens,generation,adapters,generation_adapters} "$1/tests/data"
  cat >>"$1/README.txt" <<'TEXT'

  bin/itif-gpu-check        tests and measures the GPU and writes results/GPU/DATE.md; --help lists its needs
TEXT
}

bundle_add_texts() {
  git -C "$source_root" describe --always --dirty 2>/dev/null >"$1/COMMIT" || echo unknown >"$1/COMMIT"
  install -m 644 "$source_root/LICENSE" "$1/LICENSE"
  install -m 644 "$source_root/conf/itifd.conf" "$1/conf/itifd.conf"
  cp -R "$source_root/conf/examples" "$1/conf/examples"
  cat >"$1/README.txt" <<TEXT
itif $version: a network appliance for transformer inference, for any x86-64 Linux. Run it from this folder, without
installing anything.

  bin/itifd --config FILE   the appliance; conf/itifd.conf explains every key, conf/examples/ has one file per port type
  bin/itifctl --help        administration
  bin/itif-*                random models, models without a network, load, measurements: each has --help

You can move the folder, and put links to bin/ on PATH. lib/ has all libraries and DPDK's drivers; lib/c/ has a C
library for machines with an older one. The GPU's libraries must be on this machine: if its loader does not find them,
add their folder to LD_LIBRARY_PATH.
share/doc/ has the libraries' licences; packages.txt there lists their Debian packages and sources.
TEXT
}
