// bin/NAME of a bundle (tools/make-bundle): executes libexec/NAME with the bundle's own libraries
// and DPDK drivers.
//
// It uses the machine's C library and dynamic loader if they are at least as new as the bundle's,
// because the libraries of the machine's GPU driver may need them. Otherwise, or with
// ITIF_C_LIBRARY=bundle in the environment, it uses the bundle's. A loader's file contains its
// release as text, for its option --version.
//
// The launcher is statically linked, and not a script, so that it needs neither a loader nor a
// shell. It finds the bundle by its own path, which the kernel passes, so that the bundle works in
// any folder and without /proc.
//
// DRIVERS, a string that make-bundle defines, lists the names of the drivers' libraries; it is
// empty for programs without DPDK. The loader loads them before the program starts. EAL's own
// option for a folder of drivers cannot be used: it refuses folders below a world-writable one such
// as /tmp.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOADER "ld-linux-x86-64.so.2"

static int fail(const char* path, const char* why) {
  fprintf(stderr, "itif: %s: %s\n", path, why);
  return 127;  // as a shell does for a program that it cannot execute
}

static char* text(const char* format, const char* a, const char* b) {
  char* made = NULL;
  return asprintf(&made, format, a, b) < 0 ? NULL : made;
}

// Returns the release of the C library with the loader `path`: 2036 for 2.36; 0 if it is unknown.
static int release(const char* path) {
  static const char kBefore[] = " release version ";
  struct stat status;
  int major = 0, minor = 0, file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  if (fstat(file, &status) == 0 && status.st_size > 0) {
    size_t bytes = (size_t)status.st_size;
    char* data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) {
      const char* found = memmem(data, bytes, kBefore, sizeof kBefore - 1);
      char number[16] = {0};
      if (found != NULL) {
        found += sizeof kBefore - 1;
        size_t left = (size_t)(data + bytes - found);
        memcpy(number, found, left < sizeof number ? left : sizeof number - 1);
      }
      if (sscanf(number, "%d.%d", &major, &minor) != 2) major = minor = 0;
      munmap(data, bytes);
    }
  }
  close(file);
  return 1000 * major + minor;
}

// Returns the folders that are searched for libraries before the machine's own.
static char* library_folders(const char* root, int takes_own_c_library) {
  char* folders = text(takes_own_c_library ? "%s/lib/c:%s/lib" : "%s/lib", root, root);
  const char* more = getenv("LD_LIBRARY_PATH");  // the loader's option replaces it, so add it here
  if (folders != NULL && more != NULL && more[0] != '\0') folders = text("%s:%s", folders, more);
  const char* cuda = getenv("CUDA_HOME");
  if (folders != NULL && cuda != NULL && cuda[0] != '\0')
    folders = text("%s:%s/lib64", folders, cuda);
  // In containers the driver's libraries are here, even if the loader's configuration does not list
  // the folder.
  return folders == NULL ? NULL : text("%s:%s", folders, "/usr/local/nvidia/lib64");
}

int main(int argc, char** argv) {
  const char* executed = (const char*)getauxval(AT_EXECFN);
  if (executed == NULL) executed = "";
  char* own = realpath(executed, NULL);
  char* root = own == NULL ? NULL : strdup(own);
  if (root == NULL) return fail(executed, strerror(errno));
  // ROOT/FOLDER/NAME
  char* name = strrchr(own, '/') + 1;
  for (int i = 0; i < 2; ++i) {
    char* slash = strrchr(root, '/');
    if (slash == NULL) return fail(own, "it is not in a bundle");
    *slash = '\0';
  }
  // Both separate folders in the loader's list, and cannot be escaped.
  if (strpbrk(root, ":;") != NULL)
    return fail(own, "a bundle does not work below a folder with : or ; in its name");

  char* own_loader = text("%s/lib/c/%s", root, LOADER);
  char* program = text("%s/libexec/%s", root, name);
  char** arguments = calloc((size_t)argc + 9, sizeof(char*));
  if (own_loader == NULL || program == NULL || arguments == NULL ||
      setenv("ITIF_PROGRAM", own, 1) != 0)  // for lib/base/own_program.h
    return fail(own, strerror(errno));
  const char* wanted = getenv("ITIF_C_LIBRARY");
  int takes_own = (wanted != NULL && strcmp(wanted, "bundle") == 0) ||
                  release("/lib64/" LOADER) < release(own_loader);

  for (;; takes_own = 1) {
    // A link to the loader with the program's name, because the kernel names the process after it.
    char* loader = text(takes_own ? "%s/libexec/loader/%s" : "%s/libexec/machine/%s", root, name);
    char* folders = library_folders(root, takes_own);
    if (loader == NULL || folders == NULL) return fail(own, strerror(errno));
    int count = 0;
    arguments[count++] = loader;
    arguments[count++] = "--argv0";
    arguments[count++] = argc > 0 ? argv[0] : name;
    arguments[count++] = "--library-path";
    arguments[count++] = folders;
    if (DRIVERS[0] != '\0') {
      arguments[count++] = "--preload";
      arguments[count++] = DRIVERS;
    }
    arguments[count++] = program;
    for (int i = 1; i < argc; ++i) arguments[count++] = argv[i];
    execv(loader, arguments);
    if (takes_own) return fail(loader, strerror(errno));
  }
}
