// libcurl's functions, loaded when something is sent: with what it depends on, it takes longer to load than most commands to run.

#include "CCurl.h"

#include <dlfcn.h>
#include <pthread.h>

#define EACH(do)                                                                                                  \
  do(curl_global_init) do(curl_easy_init) do(curl_easy_reset) do(curl_easy_cleanup) do(curl_easy_setopt)          \
  do(curl_easy_getinfo) do(curl_slist_append) do(curl_slist_free_all) do(curl_multi_init) do(curl_multi_cleanup)  \
  do(curl_multi_add_handle) do(curl_multi_remove_handle) do(curl_multi_perform) do(curl_multi_poll)               \
  do(curl_multi_wakeup) do(curl_multi_info_read)

#define DECLARE(name) static typeof(name) *loaded_##name;
EACH(DECLARE)

static const char *problem;

static void load(void) {
  void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    problem = dlerror();
    return;
  }
#define FIND(name)                                            \
  if (!(loaded_##name = (typeof(name) *)dlsym(library, #name))) { \
    problem = "libcurl.so.4 is too old: it has no " #name;    \
    return;                                                   \
  }
  EACH(FIND)
  if (loaded_curl_global_init(CURL_GLOBAL_DEFAULT)) problem = "libcurl.so.4 cannot be initialized";
}

const char *ccurl_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return problem;
}

CURL *ccurl_easy_init(void) { return loaded_curl_easy_init(); }
void ccurl_easy_reset(CURL *handle) { loaded_curl_easy_reset(handle); }
void ccurl_easy_cleanup(CURL *handle) { loaded_curl_easy_cleanup(handle); }
struct curl_slist *ccurl_slist_append(struct curl_slist *list, const char *text) { return loaded_curl_slist_append(list, text); }
void ccurl_slist_free_all(struct curl_slist *list) { loaded_curl_slist_free_all(list); }
CURLM *ccurl_multi_init(void) { return loaded_curl_multi_init(); }
CURLMcode ccurl_multi_cleanup(CURLM *multi) { return loaded_curl_multi_cleanup(multi); }
CURLMcode ccurl_multi_add_handle(CURLM *multi, CURL *handle) { return loaded_curl_multi_add_handle(multi, handle); }
CURLMcode ccurl_multi_remove_handle(CURLM *multi, CURL *handle) { return loaded_curl_multi_remove_handle(multi, handle); }
CURLMcode ccurl_multi_perform(CURLM *multi, int *running) { return loaded_curl_multi_perform(multi, running); }
CURLMcode ccurl_multi_poll(CURLM *multi, struct curl_waitfd extra[], unsigned int count, int milliseconds, int *ready) {
  return loaded_curl_multi_poll(multi, extra, count, milliseconds, ready);
}
CURLMcode ccurl_multi_wakeup(CURLM *multi) { return loaded_curl_multi_wakeup(multi); }
CURLMsg *ccurl_multi_info_read(CURLM *multi, int *left) { return loaded_curl_multi_info_read(multi, left); }

CURLcode ccurl_set_number(CURL *handle, CURLoption option, long value) { return loaded_curl_easy_setopt(handle, option, value); }
CURLcode ccurl_set_size(CURL *handle, CURLoption option, curl_off_t value) { return loaded_curl_easy_setopt(handle, option, value); }
CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) { return loaded_curl_easy_setopt(handle, option, value); }
CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
  return loaded_curl_easy_setopt(handle, option, value);
}

long ccurl_number(CURL *handle, CURLINFO info) {
  long value = 0;
  loaded_curl_easy_getinfo(handle, info, &value);
  return value;
}

curl_off_t ccurl_size(CURL *handle, CURLINFO info) {
  curl_off_t value = 0;
  loaded_curl_easy_getinfo(handle, info, &value);
  return value;
}

void ccurl_set_calls(CURL *handle, struct ccurl_calls calls, void *context) {
  loaded_curl_easy_setopt(handle, CURLOPT_READFUNCTION, calls.read);
  loaded_curl_easy_setopt(handle, CURLOPT_READDATA, context);
  loaded_curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, calls.seek);
  loaded_curl_easy_setopt(handle, CURLOPT_SEEKDATA, context);
  loaded_curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, calls.head);
  loaded_curl_easy_setopt(handle, CURLOPT_HEADERDATA, context);
  loaded_curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, calls.write);
  loaded_curl_easy_setopt(handle, CURLOPT_WRITEDATA, context);
  loaded_curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, calls.progress);
  loaded_curl_easy_setopt(handle, CURLOPT_XFERINFODATA, context);
  loaded_curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
}
