/*
 * The times in JSON Web Tokens, which clients make and read by the host's clock. Slurm's plugin auth/jwt compares them with its own
 * clock, and writes them from it.
 */
#define _GNU_SOURCE
#include "instants.h"
#include "virtual_clock.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The library is not linked with libjwt; these two are its interface (jwt.h). */
long jwt_get_grant_int(void *token, const char *grant);
int jwt_add_grant_int(void *token, const char *grant, long value);

/* libjwt is loaded with Slurm's plugin, where RTLD_NEXT does not search. */
static void *in_libjwt(const char *name)
{
    static const char *const libraries[] = {"libjwt.so.0", "libjwt.so.1", "libjwt.so.2"};
    void *found = dlsym(RTLD_NEXT, name);
    for (size_t i = 0; !found && i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library)
            found = dlsym(library, name);
    }
    if (!found)
        die(getenv(VARIABLE), "libjwt is not loaded");
    return found;
}

/* How far the virtual clock is ahead of the host's, in seconds; 0 for other grants than instants. */
static long ahead(const char *grant)
{
    if (is_real() || (strcmp(grant, "exp") != 0 && strcmp(grant, "iat") != 0 && strcmp(grant, "nbf") != 0))
        return 0;
    return (long)((virtual_now(CLOCK_REALTIME) - real_now(CLOCK_REALTIME)) / SECOND);
}

EXPORT long jwt_get_grant_int(void *token, const char *grant)
{
    static _Atomic(__typeof__(&jwt_get_grant_int)) real;
    if (!real)
        real = (__typeof__(&jwt_get_grant_int))in_libjwt("jwt_get_grant_int");
    long value = real(token, grant);
    return value ? value + ahead(grant) : 0; /* 0: there is none */
}

EXPORT int jwt_add_grant_int(void *token, const char *grant, long value)
{
    static _Atomic(__typeof__(&jwt_add_grant_int)) real;
    if (!real)
        real = (__typeof__(&jwt_add_grant_int))in_libjwt("jwt_add_grant_int");
    return real(token, grant, value - ahead(grant));
}
