/*
 * A libjwt.so.0 that keeps one grant, and a program (-DUSER) that calls it as Slurm's plugin auth/jwt does: it writes `exp` from
 * its clock, and reads it again.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long jwt_get_grant_int(void *token, const char *grant);
int jwt_add_grant_int(void *token, const char *grant, long value);

#ifndef USER
static long kept;

long jwt_get_grant_int(void *token, const char *grant)
{
    (void)token;
    return strcmp(grant, "none") == 0 ? 0 : kept;
}

int jwt_add_grant_int(void *token, const char *grant, long value)
{
    struct timespec raw;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &raw);
    kept = value;
    printf("%s kept=%ld raw=%ld\n", grant, value, (long)raw.tv_sec);
    return (void)token, 0;
}
#else
int main(void)
{
    static const char *const grants[] = {"exp", "iat", "number", "none"};
    for (int i = 0; i < 4; i++) {
        long now = (long)time(NULL);
        if (jwt_add_grant_int(NULL, grants[i], now + 100) != 0)
            return 1;
        printf("%s written=%ld read=%ld\n", grants[i], now + 100, jwt_get_grant_int(NULL, grants[i]));
    }
    return 0;
}
#endif
