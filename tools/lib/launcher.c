// bin/NAME of a bundle (tools/make-bundle): executes libexec/NAME with the bundle's own dynamic loader, libraries
// and DPDK drivers.
//
// Statically linked, and no script, so that it starts where there is neither a loader nor a shell. It finds the
// bundle by its own path, which the kernel gives it, so that the bundle may stand anywhere and needs no /proc.
//
// DRIVERS, a string that make-bundle defines, lists the drivers by their libraries' names; it is empty for
// programs without DPDK. They are loaded before the program starts, as in programs that are linked with
// them statically: EAL's own option for a folder of drivers refuses those below a world-writable one, /tmp say.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static int fail(const char* path, const char* why) {
  fprintf(stderr, "itif: %s: %s\n", path, why);
  return 127;  // as of a shell that cannot execute something
}

static char* text(const char* format, const char* a, const char* b) {
  char* made = NULL;
  return asprintf(&made, format, a, b) < 0 ? NULL : made;
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
    if (slash == NULL) return fail(own, "it stands in no bundle");
    *slash = '\0';
  }
  // Either would part the list of folders in two; the loader knows no way to write them.
  if (strpbrk(root, ":;") != NULL)
    return fail(own, "a bundle cannot stand below a folder with : or ; in its name");

  // A link to the loader that has the program's name: that is what the kernel then calls the process.
  char* loader = text("%s/libexec/loader/%s", root, name);
  char* program = text("%s/libexec/%s", root, name);
  const char* more = getenv("LD_LIBRARY_PATH");  // which the option below replaces
  if (more != NULL && more[0] == '\0') more = NULL;
  char* folders = text(more != NULL ? "%s/lib:%s" : "%s/lib%s", root, more != NULL ? more : "");
  char** arguments = calloc((size_t)argc + 9, sizeof(char*));
  if (loader == NULL || program == NULL || folders == NULL || arguments == NULL ||
      setenv("ITIF_PROGRAM", own, 1) != 0)  // for lib/base/own_program.h
    return fail(own, strerror(errno));

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
  return fail(loader, strerror(errno));
}
