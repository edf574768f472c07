/* SPDX-License-Identifier: MIT
 * Opening the stand-in, and a context with its device. */
#include <dlfcn.h>
#include "cuda.h"

static void *handle;

void *standin_function(const char *name) { return handle ? dlsym(handle, name) : NULL; }

void standin_path(char *out, size_t n, const char *program) {
  const char *end = strrchr(program, '/');
  snprintf(out, n, "%.*s/cuda/libcuda.so.1", end ? (int)(end - program) : 1, end ? program : ".");
}

standin *standin_open(const char *library) {
  standin_fn *control;
  if (!handle) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  *(void **)&control = standin_function("standin_control");
  return control ? control() : NULL;
}

bool machine_open(machine *m, const char *library, int chip, const tg_context_options *o) {
  *m = (machine){.standin = library ? standin_open(library) : NULL};
  CHECK(!library || m->standin, "%s: %s", library, dlerror());
  if (library && !m->standin) return false;
  if (m->standin && chip) m->standin->major[0] = chip;
  return machine_open_on(m, m->standin, o);
}

bool machine_open_on(machine *m, standin *on, const tg_context_options *o) {
  *m = (machine){.standin = on};
  tg_status s = tg_device_named("cuda:0", &m->number);
  CHECK(s == TG_OK || !on, "cuda:0: %s", tg_status_name(s));
  if (s != TG_OK || tg_device_describe(m->number, &m->about) != TG_OK) return false;
  CHECK(!m->about.lacks[0], "%s: %s", m->about.name, m->about.lacks);
  CHECK(tg_context_create(o, &m->context) == TG_OK, "a context");
  s = tg_device_open(m->context, m->number, &m->device);
  CHECK(s == TG_OK, "%s", tg_error_message(m->context));
  if (s == TG_OK) return true;
  tg_context_free(m->context);
  return false;
}

void machine_close(machine *m) {
  tg_context_free(m->context);
  if (!m->standin) return;
  CHECK(m->standin->live == 0, "%lld objects of the driver's are left", (long long)m->standin->live);
  CHECK(!m->standin->fault[0], "%s", m->standin->fault);
}
