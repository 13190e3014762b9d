/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - see show.h. A page comes from another process, so what it says is escaped before it
 * reaches a terminal. */
#include "show.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../escape.h"
#include "../flags.h"
#include "../interrupt.h"
#include "../report.h"

enum { PAGE_MAX = 8 << 20, WAIT_MS = 5000, MESSAGE_BYTES = 300 };

/* ---- asking ---- */

static int say(char *why, size_t cap, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int say(char *why, size_t cap, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, cap, format, args);
    va_end(args);
    return -1;
}

static int dial(int family, const struct sockaddr *at, socklen_t len, uint32_t wait_ms) {
    const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (connect(fd, at, len) == 0)
        return fd;
    const int e = errno == EINPROGRESS ? ETIMEDOUT : errno;
    (void)close(fd);
    errno = e;
    return -1;
}

static int dial_unix(const char *path, uint32_t wait_ms, char *why, size_t cap) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof un.sun_path)
        return say(why, cap, "the path is too long");
    memcpy(un.sun_path, path, strlen(path) + 1);
    const int fd = dial(AF_UNIX, (const struct sockaddr *)&un, sizeof un, wait_ms);
    return fd >= 0 ? fd : say(why, cap, "no process answers: %s", strerror(errno));
}

/* Names of machines may stand here: people type them. */
static int dial_tcp(const char *address, uint32_t wait_ms, char *why, size_t cap) {
    char host[256];
    const char *colon = strrchr(address, ':');
    size_t n = colon != NULL ? (size_t)(colon - address) : 0;
    if (n >= 2 && address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    }
    if (n == 0 || n >= sizeof host || colon[1] == '\0')
        return say(why, cap, "give HOST:PORT or unix:PATH, as in \"status\" of the configuration");
    memcpy(host, address, n);
    host[n] = '\0';
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int rc = getaddrinfo(host, colon + 1, &hints, &found);
    if (rc != 0)
        return say(why, cap, "%s", gai_strerror(rc));
    int fd = -1;
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
        fd = dial(a->ai_family, a->ai_addr, a->ai_addrlen, wait_ms);
    if (fd < 0)
        (void)say(why, cap, "no process answers: %s", strerror(errno));
    freeaddrinfo(found);
    return fd;
}

static bool send_request(int fd) {
    static const char request[] = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    size_t sent = 0;
    while (sent < sizeof request - 1) {
        const ssize_t n = send(fd, request + sent, sizeof request - 1 - sent, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

/* All that comes until the end; NULL: it does not, or there is no memory. */
static char *read_all(int fd, size_t *len) {
    size_t cap = 65536;
    char *bytes = malloc(cap);
    *len = 0;
    while (bytes != NULL) {
        const ssize_t n = recv(fd, bytes + *len, cap - *len - 1, 0);
        if (n == 0)
            break;
        if (n > 0)
            *len += (size_t)n;
        char *more = bytes;
        if (n > 0 && cap - *len < 4096)
            more = cap < PAGE_MAX ? realloc(bytes, cap *= 2) : NULL;
        if (n < 0 || more == NULL) {
            free(bytes);
            return NULL;
        }
        bytes = more;
    }
    if (bytes != NULL)
        bytes[*len] = '\0';
    return bytes;
}

json_t *show_fetch(const char *address, uint32_t wait_ms, char *why, size_t cap) {
    const int fd = strncmp(address, "unix:", 5) == 0 ? dial_unix(address + 5, wait_ms, why, cap)
                                                     : dial_tcp(address, wait_ms, why, cap);
    if (fd < 0)
        return NULL;
    size_t len = 0;
    json_t *page = NULL;
    char *bytes = send_request(fd) ? read_all(fd, &len) : NULL;
    (void)close(fd);
    const char *body = bytes != NULL ? strstr(bytes, "\r\n\r\n") : NULL;
    if (bytes == NULL)
        (void)say(why, cap, "it does not answer");
    else if (strncmp(bytes, "HTTP/1.1 200 ", 13) != 0 || body == NULL)
        (void)say(why, cap, "that is no page of uvcc: %.*s", (int)strcspn(bytes, "\r\n"), bytes);
    else if ((page = json_loads(body + 4, 0, NULL)) == NULL || !json_is_object(page))
        (void)say(why, cap, "that is no page of uvcc");
    free(bytes);
    if (page != NULL && !json_is_object(page)) {
        json_decref(page);
        page = NULL;
    }
    return page;
}

/* ---- showing ---- */

static const char *text_of(const json_t *o, const char *name) {
    const char *text = json_string_value(json_object_get(o, name));
    return text != NULL ? text : "";
}

static double number_of(const json_t *o, const char *name) {
    return json_number_value(json_object_get(o, name));
}

static void put(FILE *to, const char *text) {
    escaper e = {0};
    escape_put(&e, to, text, strlen(text));
    escape_end(&e, to);
}

/* "1.4 MB". */
static const char *bytes_text(double n, char out[32]) {
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    unsigned u = 0;
    for (; n >= 1000 && u + 1 < sizeof unit / sizeof unit[0]; u++)
        n /= 1000;
    (void)snprintf(out, 32, u == 0 || n >= 100 ? "%.0f %s" : "%.1f %s", n, unit[u]);
    return out;
}

static void print_head(const json_t *page, FILE *to) {
    const double steps = number_of(page, "steps"), step = number_of(page, "step");
    (void)fprintf(to, "party %.0f of job ", number_of(page, "party"));
    put(to, text_of(page, "job"));
    (void)fputs(" (", to);
    put(to, text_of(page, "kind"));
    (void)fputs("): ", to);
    put(to, text_of(page, "state"));
    (void)fprintf(to, ", run %.0f, %.0f", number_of(page, "run"), step);
    if (steps != 0)
        (void)fprintf(to, " of %.0f", steps);
    (void)fputs(" steps", to);
    for (unsigned i = 0; i < 2; i++) {
        const char *text = text_of(page, i == 0 ? "phase" : "text");
        (void)fputs(*text != '\0' ? ", " : "", to);
        put(to, text);
    }
    (void)fputc('\n', to);
}

static void print_figures(const json_t *page, FILE *to) {
    char a[32], b[32], c[32], d[32];
    const json_t *bytes = json_object_get(page, "bytes"), *memory = json_object_get(page, "memory"),
                 *seconds = json_object_get(page, "seconds");
    (void)fprintf(to, "  time    %.0f s up", number_of(page, "uptime_s"));
    if (number_of(page, "last_step_s") > 0)
        (void)fprintf(to, ", the last step took %.3g s", number_of(page, "last_step_s"));
    (void)fprintf(to, "; waited %.1f s for peers, %.1f s for compute, %.1f s for the disk\n",
                  number_of(seconds, "peer"), number_of(seconds, "compute"),
                  number_of(seconds, "disk"));
    (void)fprintf(to, "  sent    %s online, %s ahead of it, %.0f rounds, %.0f retransmissions\n",
                  bytes_text(number_of(bytes, "online"), a),
                  bytes_text(number_of(bytes, "preprocessing"), b), number_of(page, "rounds"),
                  number_of(page, "retransmissions"));
    (void)fprintf(to, "  memory  %s of sessions, at most %s\n",
                  bytes_text(number_of(memory, "bytes"), c),
                  bytes_text(number_of(memory, "peak"), d));
}

/* "party 1 connected, 0.3 ms, 1.2 kB to go, waited for: messages 5.0 s". */
static void print_peer(const json_t *peer, FILE *to) {
    char a[32];
    (void)fprintf(to, "  party %.0f ", number_of(peer, "party"));
    if (!json_is_true(json_object_get(peer, "connected"))) {
        (void)fputs("not connected", to);
        if (*text_of(peer, "why") != '\0') {
            (void)fputs(" (", to);
            put(to, text_of(peer, "why"));
            (void)fputc(')', to);
        }
    } else {
        (void)fputs("connected", to);
        if (number_of(peer, "rtt_ms") > 0)
            (void)fprintf(to, ", %.3g ms", number_of(peer, "rtt_ms"));
    }
    const double waiting = number_of(peer, "queued_bytes") + number_of(peer, "unacked_bytes");
    if (waiting > 0)
        (void)fprintf(to, ", %s to go", bytes_text(waiting, a));
    if (json_is_true(json_object_get(peer, "silent")))
        (void)fputs(", silent", to);
    if (*text_of(peer, "waits_for") != '\0') {
        (void)fputs(", waited for: ", to);
        put(to, text_of(peer, "waits_for"));
        (void)fprintf(to, " %.1f s", number_of(peer, "waited_s"));
    }
}

/* One screen. What is not there, or of another type, is left out: the page may be of another
 * version. */
static void print_page(const json_t *page, FILE *to) {
    static const char *const notes[] = {"waits", "trouble"};
    print_head(page, to);
    print_figures(page, to);
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (*text_of(page, notes[i]) != '\0') {
            (void)fprintf(to, "  %-7s ", notes[i]);
            put(to, text_of(page, notes[i]));
            (void)fputc('\n', to);
        }
    size_t i, k;
    const json_t *worker, *peer;
    json_array_foreach(json_object_get(page, "workers"), i, worker) {
        (void)fputs("  ", to);
        put(to, text_of(worker, "worker"));
        (void)fputs(" ", to);
        put(to, text_of(worker, "state"));
        (void)fprintf(to, ", step %.0f;", number_of(worker, "step"));
        json_array_foreach(json_object_get(worker, "peers"), k, peer) {
            (void)fputs(k != 0 ? ";" : "", to);
            print_peer(peer, to);
        }
        (void)fputc('\n', to);
    }
}

/* ---- the command ---- */

typedef struct show_options {
    bool watch, json, help;
} show_options;

#define AT(member) offsetof(show_options, member)
static const flag flags[] = {
    {"watch", NULL, FLAG_SWITCH, AT(watch), 0, 0, NULL, "again every second, until Ctrl-C"},
    {"json", NULL, FLAG_SWITCH, AT(json), 0, 0, NULL, "the pages as they are, one object each"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"status", flags, sizeof flags / sizeof flags[0], AT(help)};

static void print_help(void) {
    flags_text(stdout,
               "Usage: uvcc status [OPTION...] ADDRESS...\n"
               "\n"
               "Shows what running processes of uvcc party say of themselves: the job, its step, "
               "what is waited for, the peers, bytes and time. ADDRESS is what their configuration "
               "has as \"status\": HOST:PORT or unix:PATH. The same figures for collectors are at "
               "http://ADDRESS/metrics.\n"
               "\n"
               "Options:\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\nExit status: 0 done, 1 a process did not answer, 2 wrong options, 130 "
                       "interrupted.\n");
}

/* An exit status; others are asked also if one does not answer. */
static int show_all(const show_options *o, const char *const *address, int count) {
    int status = EXIT_DONE;
    char why[MESSAGE_BYTES];
    for (int i = 0; i < count && !interrupted(); i++) {
        json_t *page = show_fetch(address[i], WAIT_MS, why, sizeof why);
        if (page == NULL) {
            (void)fflush(stdout);
            status = report_error(EXIT_FAILED, "%s: %s", address[i], why);
            continue;
        }
        if (o->json) {
            (void)json_dumpf(page, stdout, JSON_INDENT(1));
            (void)fputc('\n', stdout);
        } else {
            print_page(page, stdout);
        }
        json_decref(page);
    }
    report_flush(stdout);
    return status;
}

int show_main(int argc, char *const *argv) {
    show_options o = {0};
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    const char **address = calloc((size_t)argc + 1, sizeof *address);
    int count = 0, status = EXIT_DONE;
    if (address == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    if (flags_parse(&set, &o, argc, argv, address, &count, &m) != 0) {
        status = report_error(EXIT_BAD_INPUT, "%s", text);
    } else if (o.help) {
        print_help();
    } else if (count == 0) {
        status = report_error(EXIT_BAD_INPUT, "give the ADDRESS of a process: \"status\" of its "
                                              "configuration; see uvcc status --help");
    } else {
        const bool clear = o.watch && isatty(STDOUT_FILENO) && !o.json;
        interrupt_catch();
        do {
            (void)fputs(clear ? "\x1b[H\x1b[2J" : "", stdout);
            status = show_all(&o, address, count);
            const struct timespec second = {.tv_sec = 1};
            if (o.watch && !interrupted())
                (void)nanosleep(&second, NULL);
        } while (o.watch && !interrupted());
        status = interrupted() ? EXIT_INTERRUPTED : status;
    }
    free(address);
    return status;
}
