#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

/// Loads libcurl, once. Call it before any other function here. NULL, or why that is impossible.
const char *ccurl_load(void);

/// libcurl's functions of these names, without the first letter. Under their own names they would take the place of the library's in others
/// that this program loads.
CURL *ccurl_easy_init(void);
void ccurl_easy_reset(CURL *handle);
void ccurl_easy_cleanup(CURL *handle);
struct curl_slist *ccurl_slist_append(struct curl_slist *list, const char *text);
void ccurl_slist_free_all(struct curl_slist *list);
CURLM *ccurl_multi_init(void);
CURLMcode ccurl_multi_cleanup(CURLM *multi);
CURLMcode ccurl_multi_add_handle(CURLM *multi, CURL *handle);
CURLMcode ccurl_multi_remove_handle(CURLM *multi, CURL *handle);
CURLMcode ccurl_multi_perform(CURLM *multi, int *running);
CURLMcode ccurl_multi_poll(CURLM *multi, struct curl_waitfd extra[], unsigned int count, int milliseconds, int *ready);
CURLMcode ccurl_multi_wakeup(CURLM *multi);
CURLMsg *ccurl_multi_info_read(CURLM *multi, int *left);

/// `curl_easy_setopt` and `curl_easy_getinfo`, whose arguments depend on the option, for Swift.
CURLcode ccurl_set_number(CURL *handle, CURLoption option, long value);
CURLcode ccurl_set_size(CURL *handle, CURLoption option, curl_off_t value);
CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value);
CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value);
long ccurl_number(CURL *handle, CURLINFO info);
curl_off_t ccurl_size(CURL *handle, CURLINFO info);

/// What libcurl calls during a transfer, each with `context`.
struct ccurl_calls {
  size_t (*read)(char *, size_t, size_t, void *);
  int (*seek)(void *, curl_off_t, int);
  size_t (*head)(char *, size_t, size_t, void *);
  size_t (*write)(char *, size_t, size_t, void *);
  int (*progress)(void *, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
};
void ccurl_set_calls(CURL *handle, struct ccurl_calls calls, void *context);
