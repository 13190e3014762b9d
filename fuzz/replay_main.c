/* SPDX-License-Identifier: Apache-2.0 */
/* replay_main.c - runs a fuzz target over files and folders of inputs, without a fuzzer. A finding
 * ends it by abort() or a sanitizer's report; the input's name stands on standard error then. */
#include "common.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static size_t inputs;

static bool run_file(const char *path) {
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
        if (f != NULL)
            (void)fclose(f);
        return false;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size == 0 ? 1 : size); /* of its exact size */
    bool read = data != NULL && fread(data, 1, size, f) == size;
    (void)fclose(f);
    if (read) {
        (void)fprintf(stderr, "%s\n", path);
        (void)LLVMFuzzerTestOneInput(data, size);
        inputs++;
    } else {
        (void)fprintf(stderr, "%s: cannot be read\n", path);
    }
    free(data);
    return read;
}

static int is_input(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static bool run_path(const char *path) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return run_file(path);
    struct dirent **list;
    int n = scandir(path, &list, is_input, alphasort);
    if (n < 0) {
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return false;
    }
    bool good = true;
    for (int i = 0; i < n; i++) {
        char file[4096];
        int len = snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        good = good && len > 0 && (size_t)len < sizeof file && run_file(file);
        free(list[i]);
    }
    free(list);
    return good;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!run_path(argv[i]))
            return 1;
    if (inputs == 0) {
        (void)fprintf(stderr, "usage: %s FILE|FOLDER...; no input was found\n", argv[0]);
        return 1;
    }
    (void)printf("%zu inputs\n", inputs);
    return 0;
}
