/*
 * Calls libmunge as Slurm does, which loads a plugin that is linked with it (munge_user PLUGIN), or as munge(1) does, which is
 * linked with it itself. The plugin is this file too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

int munge_encode(char **credential, void *context, const void *payload, int length);
int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid);

#ifndef HOST
static long long seen(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int talk(void)
{
    char *credential;
    void *payload;
    int length;
    uid_t uid = 0;
    gid_t gid = 0;
    int result = munge_encode(&credential, NULL, NULL, 0);
    printf("encoded result=%d value=%lld\n", result, seen());
    result = munge_decode("MUNGE:x", NULL, &payload, &length, &uid, &gid);
    printf("decoded result=%d uid=%d gid=%d value=%lld\n", result, (int)uid, (int)gid, seen());
    return 0;
}
#else
static int (*talk)(void);
#endif

int main(int argc, char **argv)
{
#ifdef HOST
    void *plugin = dlopen(argv[argc - 1], RTLD_LAZY);
    if (!plugin || !(talk = (int (*)(void))dlsym(plugin, "talk")))
        return 1;
#else
    (void)argc, (void)argv;
#endif
    return talk();
}
