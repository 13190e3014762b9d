/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over memory: both libraries and both mixed pairs, certificates and shared keys, and all that
 * must be refused. */
#define _DEFAULT_SOURCE
#include "certificates.h"
#include "io_adapters/tls/lib.h"
#include "tls_pipe.h"

#include <sys/stat.h>
#include <unistd.h>
#ifdef UVCC_TLS_HAVE_OPENSSL
#include <openssl/ssl.h>
#endif

/* ---- files ---- */

static char dir[256];

static const char *path(const char *name) {
    static char paths[32][512];
    static unsigned at;
    char *p = paths[at++ % 32];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static void issue(const char *file, const cert *ca, const cert_of *what) {
    cert c = cert_make(what, ca);
    cert_write(dir, file, &c.x, 1, c.key, NULL);
    cert_free(&c);
}

/* Two authorities, each with certificates for all parties; and those that are wrong in one way. */
static int make_files(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "%s/uvcc-tls-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(dir));
    cert ca = cert_make(&(cert_of){.subject = "CA", .authority = true}, NULL);
    cert other = cert_make(&(cert_of){.subject = "CA", .authority = true}, NULL);
    cert middle = cert_make(&(cert_of){.subject = "middle", .authority = true}, &ca);
    cert_write(dir, "ca", &ca.x, 1, NULL, NULL);
    cert_write(dir, "two", (X509 *[]){ca.x, middle.x}, 2, NULL, NULL);
    cert_write(dir, "other", &other.x, 1, NULL, NULL);
    cert_write(dir, "middle", (X509 *[]){middle.x, ca.x}, 1, NULL, NULL);
    issue("p0", &ca, &(cert_of){.subject = "x", .names = {"party-0"}});
    issue("p1", &ca, &(cert_of){.subject = "x", .names = {"elsewhere", "PARTY-1"}});
    issue("p2", &ca, &(cert_of){.subject = "x", .names = {"party-2"}, .rsa = true});
    issue("other1", &other, &(cert_of){.subject = "x", .names = {"party-1"}});
    issue("late1", &ca,
          &(cert_of){.subject = "x", .names = {"party-1"}, .from_days = -30, .to_days = -1});
    issue("early1", &ca,
          &(cert_of){.subject = "x", .names = {"party-1"}, .from_days = 1, .to_days = 30});
    issue("nameless", &ca, &(cert_of){.subject = "party-1"});
    issue("both", &ca, &(cert_of){.subject = "x", .names = {"party-1", "party-2"}});
    issue("calls1", &ca, &(cert_of){.subject = "x", .names = {"party-1"}, .usage = "clientAuth"});
    issue("wild", &ca, &(cert_of){.subject = "x", .names = {"*", "party-*"}});
    cert chained = cert_make(&(cert_of){.subject = "x", .names = {"party-1"}}, &middle);
    cert_write(dir, "chain1", (X509 *[]){chained.x, middle.x}, 2, chained.key, NULL);
    cert_write(dir, "short1", &chained.x, 1, chained.key, NULL);
    cert_write(dir, "locked", NULL, 0, chained.key, "phrase");
    cert gone = cert_make(&(cert_of){.subject = "x", .names = {"party-1"}}, &ca);
    cert_write(dir, "gone1", &gone.x, 1, gone.key, NULL);
    cert_list(dir, "empty", &ca, NULL, 0, 30, false);
    cert_list(dir, "gone", &ca, &gone.x, 1, 30, false);
    cert_list(dir, "old", &ca, NULL, 0, -1, false);
    cert_list(dir, "forged", &other, NULL, 0, 30, false); /* its name is CA too */
    cert_list(dir, "chained", &ca, NULL, 0, 30, false);
    cert_list(dir, "chained", &middle, &chained.x, 1, 30, true);
    cert_list(dir, "middle", &ca, &middle.x, 1, 30, false);
    cert_free(&gone);
    X509 *selves[UVCC_PARTIES];
    cert self[UVCC_PARTIES];
    for (int p = 0; p < 3; p++) {
        char file[8], name[16];
        snprintf(file, sizeof file, "self%d", p);
        snprintf(name, sizeof name, "party-%d", p);
        self[p] = cert_make(&(cert_of){.subject = "uvcc", .names = {name}}, NULL);
        selves[p] = self[p].x;
        cert_write(dir, file, &self[p].x, 1, self[p].key, NULL);
    }
    cert_write(dir, "selves", selves, 3, NULL, NULL);
    cert power =
        cert_make(&(cert_of){.subject = "y", .names = {"party-2"}, .authority = true}, NULL);
    cert_write(dir, "power", &power.x, 1, power.key, NULL);
    for (int p = 0; p < 3; p++)
        cert_free(&self[p]);
    cert_free(&power), cert_free(&chained), cert_free(&middle), cert_free(&other), cert_free(&ca);
    return 0;
}

static int remove_files(void **state) {
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* ---- ends ---- */

static char logged[1024];
static void on_log(void *user, uvcc_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

static const uint8_t keys[3][64] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};

static uvcc_tls_config config(uint32_t library, uint8_t party) {
    return (uvcc_tls_config){.size = sizeof(uvcc_tls_config),
                             .alloc = uvcc_host_allocator(),
                             .log = {.write = on_log},
                             .library = library,
                             .party = party,
                             .tls12 = true};
}

static uvcc_tls_config by_files(uint32_t library, uint8_t party, const char *crt, const char *key,
                                const char *authorities) {
    uvcc_tls_config cfg = config(library, party);
    cfg.certificate = path(crt);
    cfg.key = path(key);
    cfg.authorities = path(authorities);
    return cfg;
}

/* keys[a + b - 1] is shared by a and b. */
static uvcc_tls_config by_keys(uint32_t library, uint8_t party) {
    uvcc_tls_config cfg = config(library, party);
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        if (p != party) {
            cfg.psk[p] = keys[p + party - 1];
            cfg.psk_len[p] = p + party == 1 ? 32 : p + party == 2 ? 64 : 33;
        }
    return cfg;
}

static uvcc_tls *made(const uvcc_tls_config *cfg) {
    uvcc_tls *t = NULL;
    logged[0] = '\0';
    if (uvcc_tls_new(&t, cfg) != 0)
        fail_msg("%s", logged);
    return t;
}

static uvcc_tls *of_party(uint32_t library, uint8_t party, bool shared) {
    static const char *const crt[] = {"p0.crt", "p1.crt", "p2.crt"};
    static const char *const key[] = {"p0.key", "p1.key", "p2.key"};
    const uvcc_tls_config cfg = shared ? by_keys(library, party)
                                       : by_files(library, party, crt[party], key[party], "ca.crt");
    return made(&cfg);
}

static uvcc_tls *named(uint32_t library, uint8_t party, const char *name, const char *authorities) {
    char crt[32], key[32];
    snprintf(crt, sizeof crt, "%s.crt", name);
    snprintf(key, sizeof key, "%s.key", name);
    const uvcc_tls_config cfg = by_files(library, party, crt, key, authorities);
    return made(&cfg);
}

/* Caller's library, the other's, by shared keys. */
typedef struct way {
    uint32_t lib[2];
    bool shared;
} way;

static const way ways[] = {
    {{UVCC_TLS_OPENSSL, UVCC_TLS_OPENSSL}, false}, {{UVCC_TLS_MBEDTLS, UVCC_TLS_MBEDTLS}, false},
    {{UVCC_TLS_OPENSSL, UVCC_TLS_MBEDTLS}, false}, {{UVCC_TLS_MBEDTLS, UVCC_TLS_OPENSSL}, false},
    {{UVCC_TLS_OPENSSL, UVCC_TLS_OPENSSL}, true},  {{UVCC_TLS_MBEDTLS, UVCC_TLS_MBEDTLS}, true},
    {{UVCC_TLS_OPENSSL, UVCC_TLS_MBEDTLS}, true},  {{UVCC_TLS_MBEDTLS, UVCC_TLS_OPENSSL}, true}};

/* Those of the ways whose libraries are here. */
#define EACH_WAY(w)                                                                                \
    for (const way *w = ways; w < ways + sizeof ways / sizeof ways[0]; w++)                        \
        if (uvcc_tls_is_here(w->lib[0]) && uvcc_tls_is_here(w->lib[1]))
#define EACH_LIBRARY(l)                                                                            \
    for (uint32_t l = UVCC_TLS_OPENSSL; l <= UVCC_TLS_MBEDTLS; l++)                                \
        if (uvcc_tls_is_here(l))

static void shaken(pipe2 *p, uint8_t caller, uint8_t called) {
    uint8_t binding[2][32];
    for (int i = 0; i < 2; i++)
        if (p->end[i].rc != 1)
            fail_msg("end %d: %d: %s / %s", i, p->end[i].rc, uvcci_tls_why(p->end[i].c),
                     uvcci_tls_why(p->end[1 - i].c));
    assert_int_equal(uvcci_tls_peer(p->end[0].c), called);
    assert_int_equal(uvcci_tls_peer(p->end[1].c), caller);
    for (int i = 0; i < 2; i++)
        assert_int_equal(uvcci_tls_binding(p->end[i].c, binding[i]), 0);
    assert_memory_equal(binding[0], binding[1], 32);
    assert_string_equal(uvcci_tls_why(p->end[0].c), "");
}

/* All of it, to the other end: what it takes and what comes out of it, in turns. */
static void carry(pipe2 *p, int from, const uvcc_slice *slices, uint32_t count, size_t read_cap) {
    uvcci_tls_conn *a = p->end[from].c, *b = p->end[1 - from].c;
    size_t total = 0, sent = 0, got = 0, at = 0, slice = 0;
    uint8_t *out = malloc(read_cap);
    for (uint32_t i = 0; i < count; i++)
        total += slices[i].len;
    while (got < total) {
        const size_t before = sent + got + p->there.at + p->back.at;
        ptrdiff_t n = uvcci_tls_send(a, slices, count, sent);
        assert_true(n >= 0 || n == UVCC_ERR_AGAIN);
        sent += n > 0 ? (size_t)n : 0;
        n = uvcci_tls_flush(a);
        assert_true(n == 0 || (n == UVCC_ERR_AGAIN && uvcci_tls_wants_send(a)));
        n = uvcci_tls_recv(b, out, read_cap);
        if (n < 0 && n != UVCC_ERR_AGAIN && n != UVCC_ERR_NOMEM)
            fail_msg("%zd: %s", n, uvcci_tls_why(b));
        for (ptrdiff_t i = 0; i < n; i++, at++) {
            while (at == slices[slice].len)
                slice++, at = 0;
            assert_int_equal(out[i], slices[slice].data[at]);
        }
        got += n > 0 ? (size_t)n : 0;
        assert_true(n == UVCC_ERR_NOMEM || sent + got + p->there.at + p->back.at > before);
    }
    assert_int_equal(sent, total);
    assert_int_equal(uvcci_tls_recv(b, out, read_cap), UVCC_ERR_AGAIN);
    free(out);
}

static uint8_t *pattern(size_t len) {
    uint8_t *p = malloc(len);
    uint64_t seed = len;
    test_rand_bytes(&seed, p, len);
    return p;
}

/* ---- what works ---- */

static void test_all_ways_talk(void **state) {
    static const size_t steps[] = {1, 5, 1000, 0};
    (void)state;
    uint8_t *bytes = pattern(70000);
    const uvcc_slice slices[] = {{bytes, 64},           {bytes + 64, 0},        {bytes + 64, 40000},
                                 {bytes + 40064, 1},    {bytes + 40065, 17000}, {bytes + 57065, 64},
                                 {bytes + 57129, 12871}};
    EACH_WAY(w) {
        for (uint8_t caller = 1; caller < 3; caller++) {
            uvcc_tls *a = of_party(w->lib[0], caller, w->shared);
            uvcc_tls *b = of_party(w->lib[1], 0, w->shared);
            for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
                pipe2 p = {.there.step = steps[s], .back.step = steps[s]};
                pipe_open(&p, a, b, 0);
                pipe_shake(&p);
                shaken(&p, caller, 0);
                const uint32_t count = steps[s] == 1 ? 2 : 7;
                carry(&p, 0, slices, count, 5000);
                carry(&p, 1, slices, count, 100000);
                uvcci_tls_close(p.end[0].c);
                uint8_t byte;
                while (uvcci_tls_flush(p.end[0].c) == UVCC_ERR_AGAIN)
                    continue;
                ptrdiff_t n;
                do
                    n = uvcci_tls_recv(p.end[1].c, &byte, 1);
                while (n == UVCC_ERR_AGAIN && p.there.at < p.there.len);
                assert_int_equal(n, 0);
                assert_int_equal(uvcci_tls_recv(p.end[1].c, &byte, 1), 0);
                pipe_free(&p);
            }
            uvcc_tls_free(a);
            uvcc_tls_free(b);
        }
    }
    free(bytes);
}

/* Little room: what was taken may be changed, and nothing of it is lost. */
static void test_a_full_wire_gives_again(void **state) {
    (void)state;
    EACH_WAY(w) {
        uvcc_tls *a = of_party(w->lib[0], 2, w->shared), *b = of_party(w->lib[1], 1, w->shared);
        pipe2 p = {.there.room = 100, .back.room = 100};
        pipe_open(&p, a, b, 1);
        pipe_shake(&p);
        shaken(&p, 2, 1);
        uint8_t *bytes = pattern(200000), *copy = malloc(200000);
        memcpy(copy, bytes, 200000);
        const uvcc_slice s[] = {{bytes, 100000}, {bytes + 100000, 100000}};
        size_t sent = 0, got = 0;
        bool again = false;
        uint8_t out[3000];
        while (got < 200000) {
            ptrdiff_t n = uvcci_tls_send(p.end[0].c, s, 2, sent);
            again = again || n == UVCC_ERR_AGAIN;
            if (n > 0) {
                memset(bytes + sent, 0xEE, (size_t)n);
                sent += (size_t)n;
                /* No more than the buffer has room for was taken. */
                assert_true(sent - got <= 5 * 16384);
            }
            (void)uvcci_tls_flush(p.end[0].c);
            n = uvcci_tls_recv(p.end[1].c, out, sizeof out);
            assert_true(n > 0 || n == UVCC_ERR_AGAIN);
            if (n > 0) {
                assert_memory_equal(out, copy + got, (size_t)n);
                got += (size_t)n;
            }
        }
        assert_true(again);
        free(bytes);
        free(copy);
        pipe_free(&p);
        uvcc_tls_free(a);
        uvcc_tls_free(b);
    }
}

/* Records on a wire from `at` on. */
static size_t records(const wire *w, size_t at) {
    size_t n = 0;
    while (at + 5 <= w->len) {
        at += 5u + ((size_t)w->bytes[at + 3] << 8 | w->bytes[at + 4]);
        n++;
    }
    assert_int_equal(at, w->len);
    return n;
}

static void test_records_are_full(void **state) {
    (void)state;
    EACH_WAY(w) {
        uvcc_tls *a = of_party(w->lib[0], 2, w->shared), *b = of_party(w->lib[1], 1, w->shared);
        pipe2 p = {0};
        pipe_open(&p, a, b, 1);
        pipe_shake(&p);
        shaken(&p, 2, 1);
        uint8_t *bytes = pattern(1u << 20);
        uvcc_slice s[64];
        size_t total = 0;
        for (int i = 0; i < 64; i++) {
            s[i] = (uvcc_slice){bytes + i, i % 2 == 0 ? 64 : i < 32 ? 60000 : 500};
            total += s[i].len;
        }
        size_t at = p.there.len, reads = p.there.reads;
        carry(&p, 0, s, 64, total);
        assert_int_equal(records(&p.there, at), (total + 16383) / 16384);
        /* And several records come with one read: four, but for the last ones. */
        assert_true(p.there.reads - reads <= (p.there.len - at) / 65536 + 4);
        at = p.there.len;
        carry(&p, 0, s, 1, 100);
        assert_int_equal(records(&p.there, at), 1);
        free(bytes);
        pipe_free(&p);
        uvcc_tls_free(a);
        uvcc_tls_free(b);
    }
}

/* pending: plaintext for which no more must come, and nothing while a record is in pieces. */
static void test_pending_counts_whole_records(void **state) {
    (void)state;
    EACH_WAY(w) {
        uvcc_tls *a = of_party(w->lib[0], 2, w->shared), *b = of_party(w->lib[1], 1, w->shared);
        pipe2 p = {0};
        uint8_t bytes[4096] = {0}, out[4096];
        const uvcc_slice s = {bytes, sizeof bytes};
        pipe_open(&p, a, b, 1);
        pipe_shake(&p);
        shaken(&p, 2, 1);
        assert_int_equal(uvcci_tls_pending(p.end[1].c), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(uvcci_tls_send(p.end[0].c, &s, 1, 0), sizeof bytes);
        p.there.len -= 7;
        assert_int_equal(uvcci_tls_recv(p.end[1].c, out, 4000), 4000);
        assert_true(uvcci_tls_pending(p.end[1].c) >= 96);
        assert_int_equal(uvcci_tls_recv(p.end[1].c, out, 96), 96);
        assert_int_not_equal(uvcci_tls_pending(p.end[1].c), 0); /* the second record */
        assert_int_equal(uvcci_tls_recv(p.end[1].c, out, 4096), 4096);
        assert_int_equal(uvcci_tls_pending(p.end[1].c), 0); /* the third lacks seven bytes */
        assert_int_equal(uvcci_tls_recv(p.end[1].c, out, 4096), UVCC_ERR_AGAIN);
        assert_int_equal(uvcci_tls_pending(p.end[1].c), 0);
        p.there.len += 7;
        assert_int_equal(uvcci_tls_recv(p.end[1].c, out, 4096), 4096);
        pipe_free(&p);
        uvcc_tls_free(a);
        uvcc_tls_free(b);
    }
}

/* The binding is this connection's: not another's, nor those of one who relays with good
 * certificates of his own. */
static void test_bindings_tell_connections_apart(void **state) {
    (void)state;
    EACH_WAY(w) {
        uvcc_tls *a = of_party(w->lib[0], 2, w->shared), *b = of_party(w->lib[1], 1, w->shared);
        uvcc_tls *as_a = of_party(w->lib[0], 2, w->shared);
        uvcc_tls *as_b = of_party(w->lib[1], 1, w->shared);
        uint8_t binding[4][32];
        pipe2 p[4] = {0};
        pipe_open(&p[0], a, b, 1);
        pipe_open(&p[1], a, b, 1);
        pipe_open(&p[2], a, as_b, 1); /* the man in the middle's two */
        pipe_open(&p[3], as_a, b, 1);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(uvcci_tls_binding(p[i].end[0].c, binding[i]), UVCC_ERR_STATE);
            pipe_shake(&p[i]);
            shaken(&p[i], 2, 1);
            assert_int_equal(uvcci_tls_binding(p[i].end[0].c, binding[i]), 0);
            for (int j = 0; j < i; j++)
                assert_memory_not_equal(binding[i], binding[j], 32);
        }
        for (int i = 0; i < 4; i++)
            pipe_free(&p[i]);
        uvcc_tls_free(a), uvcc_tls_free(b), uvcc_tls_free(as_a), uvcc_tls_free(as_b);
    }
}

static void test_chains_and_self_signed(void **state) {
    (void)state;
    EACH_WAY(w) {
        if (w->shared)
            continue;
        /* In the last pair one end trusts the middle of the chain alone. */
        static const char *const pairs[][4] = {{"chain1", "p2", "ca.crt", "ca.crt"},
                                               {"self1", "self2", "selves.crt", "selves.crt"},
                                               {"short1", "p2", "ca.crt", "middle.crt"}};
        for (int i = 0; i < 3; i++) {
            uvcc_tls *a = named(w->lib[0], 1, pairs[i][0], pairs[i][2]);
            uvcc_tls *b = named(w->lib[1], 2, pairs[i][1], pairs[i][3]);
            for (int turned = 0; turned < 2; turned++) {
                pipe2 p = {0};
                pipe_open(&p, turned ? b : a, turned ? a : b, turned ? 1 : 2);
                pipe_shake(&p);
                shaken(&p, turned ? 2 : 1, turned ? 1 : 2);
                pipe_free(&p);
            }
            uvcc_tls_free(a);
            uvcc_tls_free(b);
        }
    }
}

/* New keys after so many records: one record more each time, and nothing is noticed. */
static void test_new_keys(void **state) {
    (void)state;
    EACH_WAY(w) {
        uvcc_tls *a = of_party(w->lib[0], 2, w->shared), *b = of_party(w->lib[1], 1, w->shared);
        const bool tls13 = w->lib[0] == UVCC_TLS_OPENSSL && w->lib[1] == UVCC_TLS_OPENSSL;
        a->records_per_key = 3;
        pipe2 p = {0};
        uint8_t *bytes = pattern(1u << 19);
        pipe_open(&p, a, b, 1);
        pipe_shake(&p);
        shaken(&p, 2, 1);
        const size_t at = p.there.len;
        const uvcc_slice s = {bytes, 1u << 19};
        carry(&p, 0, &s, 1, 100000);
        carry(&p, 1, &s, 1, 100000);
        assert_int_equal(records(&p.there, at), 32 + (tls13 ? 10 : 0));
        free(bytes);
        pipe_free(&p);
        uvcc_tls_free(a);
        uvcc_tls_free(b);
    }
}

/* ---- what is refused ---- */

/* An error of one end, and the other one's, which may come with the first bytes only (TLS 1.3: the
 * caller is done before the other has looked). */
static int ending(end *e) {
    uint8_t byte;
    if (e->rc != 1)
        return e->rc;
    ptrdiff_t n = uvcci_tls_recv(e->c, &byte, 1);
    return n == 0 ? 1 : (int)n;
}

static void refuses(uvcc_tls *caller, uvcc_tls *called, uint8_t peer, int who, int error,
                    const char *why) {
    pipe2 p = {0};
    pipe_open(&p, caller, called, peer);
    pipe_shake(&p);
    assert_true(p.end[who].rc < 0);
    if (p.end[who].rc != error || strstr(uvcci_tls_why(p.end[who].c), why) == NULL)
        fail_msg("%d, %s: not %d, %s", p.end[who].rc, uvcci_tls_why(p.end[who].c), error, why);
    const int other = ending(&p.end[1 - who]);
    if (other >= 0 || other == UVCC_ERR_AGAIN || *uvcci_tls_why(p.end[1 - who].c) == '\0')
        fail_msg("the other end: %d: %s", other, uvcci_tls_why(p.end[1 - who].c));
    assert_int_equal(uvcci_tls_handshake(p.end[who].c), error); /* it sticks */
    pipe_free(&p);
    uvcc_tls_free(caller);
    uvcc_tls_free(called);
}

/* Party 1 calls party 2. */
static void talks(uvcc_tls *caller, uvcc_tls *called) {
    pipe2 p = {0};
    pipe_open(&p, caller, called, 2);
    pipe_shake(&p);
    shaken(&p, 1, 2);
    pipe_free(&p);
    uvcc_tls_free(caller);
    uvcc_tls_free(called);
}

static void neither_talks(uvcc_tls *caller, uvcc_tls *called, uint8_t peer) {
    pipe2 p = {0};
    pipe_open(&p, caller, called, peer);
    pipe_shake(&p);
    for (int i = 0; i < 2; i++) {
        const int rc = ending(&p.end[i]);
        assert_true(rc < 0 && rc != UVCC_ERR_AGAIN);
        assert_string_not_equal(uvcci_tls_why(p.end[i].c), "");
    }
    pipe_free(&p);
    uvcc_tls_free(caller);
    uvcc_tls_free(called);
}

static void test_certificates_that_are_wrong(void **state) {
    (void)state;
    EACH_WAY(w) {
        if (w->shared)
            continue;
        const uint32_t a = w->lib[0], b = w->lib[1];
        static const struct {
            const char *name, *why[2];
        } bad[] = {
            {"other1", {"refused", "refused"}},       {"late1", {"expired", "expired"}},
            {"early1", {"refused", "refused"}},       {"nameless", {"not one of", "none of"}},
            {"short1", {"refused", "refused"}},       {"wild", {"not one of", "none of"}},
            {"p0", {"not one of", "has the name of"}}};
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            /* Of the caller, at the called party 2; then of the called, for which 1 was called. */
            if (strcmp(bad[i].name, "p0") != 0)
                refuses(named(a, 1, bad[i].name, "ca.crt"), named(b, 2, "p2", "ca.crt"), 2, 1,
                        UVCC_ERR_AUTH, bad[i].why[1]);
            refuses(named(a, 2, "p2", "ca.crt"), named(b, 1, bad[i].name, "ca.crt"), 1, 0,
                    UVCC_ERR_AUTH, bad[i].why[0]);
        }
        /* One that is good for calling only; mbedTLS does not even show it. */
        neither_talks(named(a, 2, "p2", "ca.crt"), named(b, 1, "calls1", "ca.crt"), 1);
        /* The called party sees its own name; the name of two parties; another authority. */
        refuses(named(a, 1, "p2", "ca.crt"), named(b, 2, "p2", "ca.crt"), 2, 1, UVCC_ERR_AUTH,
                "of this party itself");
        refuses(named(a, 1, "both", "ca.crt"), named(b, 0, "p0", "ca.crt"), 0, 1, UVCC_ERR_AUTH,
                "both");
        refuses(named(a, 1, "p1", "other.crt"), named(b, 2, "p2", "ca.crt"), 2, 0, UVCC_ERR_AUTH,
                "refused");
    }
}

static uvcc_tls *listed(uint32_t library, uint8_t party, const char *crt, const char *authorities,
                        const char *crl) {
    char certificate[16], key[16];
    snprintf(certificate, sizeof certificate, "%s.crt", crt);
    snprintf(key, sizeof key, "%s.key", crt);
    uvcc_tls_config cfg = by_files(library, party, certificate, key, authorities);
    cfg.crl = path(crl);
    return made(&cfg);
}

/* A certificate on its authority's list is refused by either end, and no other one; a list that is
 * out of date, or of somebody who has the authority's name alone, lets nobody pass. */
static void test_revoked(void **state) {
    (void)state;
    EACH_WAY(w) {
        if (w->shared)
            continue;
        const uint32_t a = w->lib[0], b = w->lib[1];
        static const struct {
            const char *crt, *authorities, *crl, *why;
        } bad[] = {{"gone1", "ca.crt", "gone.crl", "\"crl\" here: it needs a new one"},
                   {"p1", "ca.crt", "old.crl", "present list"},
                   {"p1", "ca.crt", "forged.crl", "refused"},
                   {"chain1", "ca.crt", "chained.crl", "revoked"},
                   {"chain1", "ca.crt", "middle.crl", "revoked"}};
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            refuses(named(a, 1, bad[i].crt, "ca.crt"),
                    listed(b, 2, "p2", bad[i].authorities, bad[i].crl), 2, 1, UVCC_ERR_AUTH,
                    bad[i].why);
            refuses(listed(a, 2, "p2", bad[i].authorities, bad[i].crl),
                    named(b, 1, bad[i].crt, "ca.crt"), 1, 0, UVCC_ERR_AUTH, bad[i].why);
        }
        static const struct {
            const char *crt, *crl;
        } good[] = {{"p1", "gone.crl"}, {"gone1", "empty.crl"}, {"chain1", "empty.crl"}};
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
            talks(named(a, 1, good[i].crt, "ca.crt"), listed(b, 2, "p2", "ca.crt", good[i].crl));
        /* Those that are trusted themselves have no list. */
        talks(named(a, 1, "self1", "selves.crt"), listed(b, 2, "self2", "selves.crt", "empty.crl"));
    }
}

static void test_own_names(void **state) {
    (void)state;
    static const struct {
        const char *crt;
        uint32_t names;
    } of[] = {{"p0", 1}, {"p1", 2}, {"p2", 4}, {"both", 6}, {"nameless", 0}, {"wild", 0}};
    EACH_LIBRARY(l) {
        for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
            uvcc_tls *t = named(l, 0, of[i].crt, "ca.crt");
            assert_int_equal(uvcc_tls_own_names(t), of[i].names);
            uvcc_tls_free(t);
        }
        uvcc_tls *t = of_party(l, 0, true);
        assert_int_equal(uvcc_tls_own_names(t), 0);
        uvcc_tls_free(t);
    }
    assert_int_equal(uvcc_tls_own_names(NULL), 0);
}

static void test_keys_that_are_wrong(void **state) {
    (void)state;
    EACH_WAY(w) {
        if (!w->shared)
            continue;
        const uint32_t a = w->lib[0], b = w->lib[1];
        static const uint8_t wrong[32] = {9};
        uvcc_tls_config cfg = by_keys(a, 1);
        cfg.psk[2] = wrong;
        cfg.psk_len[2] = 32;
        refuses(made(&cfg), of_party(b, 2, true), 2, 1, UVCC_ERR_AUTH, "shared key is another");
        /* One with whom there is none. */
        cfg = by_keys(b, 2);
        cfg.psk[1] = NULL;
        refuses(of_party(a, 1, true), made(&cfg), 2, 1, UVCC_ERR_AUTH, "nobody's");
        /* Who has the key of parties 1 and 2 is not taken for party 0 by party 2, nor for 2. */
        cfg = by_keys(a, 0);
        cfg.psk[2] = keys[2];
        cfg.psk_len[2] = 33;
        refuses(made(&cfg), of_party(b, 2, true), 2, 1, UVCC_ERR_AUTH, "another");
        cfg = by_keys(a, 2);
        cfg.psk[0] = keys[2];
        cfg.psk_len[0] = 33;
        cfg.psk[1] = NULL;
        refuses(made(&cfg), of_party(b, 2, true), 0, 1, UVCC_ERR_AUTH, "nobody's");
    }
}

static void test_keys_against_certificates(void **state) {
    (void)state;
    EACH_WAY(w)
    neither_talks(of_party(w->lib[0], 1, w->shared), of_party(w->lib[1], 2, !w->shared), 2);
}

/* A reflection of one's own calls finds nobody. */
static void test_an_end_does_not_talk_to_itself(void **state) {
    (void)state;
    EACH_LIBRARY(l) {
        for (int shared = 0; shared < 2; shared++) {
            uvcc_tls *a = of_party(l, 1, shared), *b = of_party(l, 1, shared);
            pipe2 p = {0};
            pipe_open(&p, a, b, 2);
            pipe_shake(&p);
            assert_true(p.end[0].rc < 0 && p.end[1].rc < 0);
            pipe_free(&p);
            uvcc_tls_free(a);
            uvcc_tls_free(b);
        }
    }
}

/* Bytes that are no handshake: refused by both kinds of ends, or nothing comes of them. */
static void test_what_is_not_tls(void **state) {
    static const char http[] = "GET / HTTP/1.1\r\nHost: party-1\r\n\r\n";
    static const uint8_t huge[] = {22, 3, 3, 0xff, 0xff, 1, 0, 0, 4};
    uint8_t noise[4096];
    (void)state;
    EACH_LIBRARY(l) {
        for (int server = 0; server < 2; server++)
            for (int shared = 0; shared < 2; shared++)
                for (uint64_t round = 0; round < 40; round++) {
                    uint64_t seed = round + 1;
                    uvcc_tls *t = of_party(l, 1, shared);
                    pipe2 p = {0};
                    test_rand_bytes(&seed, noise, sizeof noise);
                    if (round % 2 == 0) /* a good head */
                        memcpy(noise, (uint8_t[]){22, 3, 3, 0, 60}, 5);
                    pipe_open(&p, server ? NULL : t, server ? t : NULL, 2);
                    wire *in = server ? &p.there : &p.back;
                    if (round == 0)
                        wire_send(in, (const uint8_t *)http, sizeof http - 1);
                    else if (round == 1)
                        wire_send(in, huge, sizeof huge);
                    else
                        wire_send(in, noise, sizeof noise);
                    pipe_shake(&p);
                    end *e = &p.end[server];
                    if (round == 0 || round > 1 || l == UVCC_TLS_OPENSSL) {
                        assert_true(e->rc < 0 && e->rc != UVCC_ERR_AGAIN);
                        assert_string_not_equal(uvcci_tls_why(e->c), "");
                    }
                    if (round == 0 && server && strstr(uvcci_tls_why(e->c), "not TLS") == NULL)
                        fail_msg("%s", uvcci_tls_why(e->c));
                    pipe_free(&p);
                    uvcc_tls_free(t);
                }
    }
}

/* A connection that ends anywhere within the handshake, at either end; and after it, where only
 * close_notify is an end. */
static void test_cut_anywhere(void **state) {
    (void)state;
    EACH_WAY(w) {
        if (w->lib[0] != w->lib[1] && w->shared)
            continue;
        uvcc_tls *a = of_party(w->lib[0], 1, w->shared), *b = of_party(w->lib[1], 0, w->shared);
        pipe2 whole = {0};
        pipe_open(&whole, a, b, 0);
        pipe_shake(&whole);
        const size_t most =
            whole.there.total > whole.back.total ? whole.there.total : whole.back.total;
        /* Certificates are long, and signing takes its time: every byte of the heads, then some. */
        for (size_t cut = 1; cut <= most + 1; cut += !w->shared && cut > 64 ? 23 : 1)
            for (int back = 0; back < 2; back++) {
                pipe2 p = {0};
                wire *in = back ? &p.back : &p.there;
                in->cut = cut;
                pipe_open(&p, a, b, 0);
                pipe_shake(&p);
                end *e = &p.end[back ? 0 : 1];
                if (in->closed && e->rc != 1) {
                    if (e->rc != UVCC_ERR_STREAM_BROKEN)
                        fail_msg("cut %zu of %zu: %d: %s", cut, most, e->rc, uvcci_tls_why(e->c));
                    assert_non_null(strstr(uvcci_tls_why(e->c), "within the handshake"));
                } else {
                    in->closed = true;
                    assert_int_equal(e->rc, 1);
                    assert_int_equal(ending(e), UVCC_ERR_STREAM_BROKEN);
                    assert_non_null(strstr(uvcci_tls_why(e->c), "without close_notify"));
                }
                pipe_free(&p);
            }
        pipe_free(&whole);
        uvcc_tls_free(a);
        uvcc_tls_free(b);
    }
}

/* The io's own errors come through, at once and for ever; a changed byte ends the connection. */
static void test_gone_and_damaged(void **state) {
    (void)state;
    EACH_WAY(w) {
        uvcc_tls *a = of_party(w->lib[0], 1, w->shared), *b = of_party(w->lib[1], 0, w->shared);
        uint8_t bytes[100] = {0};
        const uvcc_slice s = {bytes, sizeof bytes};
        for (int kind = 0; kind < 4; kind++) {
            pipe2 p = {0};
            pipe_open(&p, a, b, 0);
            pipe_shake(&p);
            shaken(&p, 1, 0);
            if (kind == 0)
                p.there.error = UVCC_ERR_CLOSED;
            assert_int_equal(uvcci_tls_send(p.end[0].c, &s, 1, 0), 100);
            if (kind == 0) {
                assert_int_equal(uvcci_tls_send(p.end[0].c, &s, 1, 0), UVCC_ERR_CLOSED);
                assert_int_equal(uvcci_tls_flush(p.end[0].c), UVCC_ERR_CLOSED);
                assert_false(uvcci_tls_wants_send(p.end[0].c));
                assert_non_null(strstr(uvcci_tls_why(p.end[0].c), "gone"));
            }
            if (kind == 1)
                p.there.error = UVCC_ERR_LIMIT;
            if (kind == 2)
                p.there.bytes[p.there.len - 30] ^= 1;
            if (kind == 3) { /* a good record and the end */
                assert_int_equal(uvcci_tls_send(p.end[0].c, &s, 1, 0), 100);
                p.there.len -= 1;
                p.there.closed = true;
                assert_int_equal(uvcci_tls_recv(p.end[1].c, bytes, 100), 100);
            }
            static const int want[] = {UVCC_ERR_CLOSED, UVCC_ERR_LIMIT, UVCC_ERR_PROTOCOL,
                                       UVCC_ERR_STREAM_BROKEN};
            for (int again = 0; again < 2; again++)
                assert_int_equal(uvcci_tls_recv(p.end[1].c, bytes, 100), want[kind]);
            assert_int_equal(uvcci_tls_pending(p.end[1].c), 0);
            assert_int_equal(uvcci_tls_send(p.end[1].c, &s, 1, 0), want[kind]);
            pipe_free(&p);
        }
        uvcc_tls_free(a);
        uvcc_tls_free(b);
    }
}

/* ---- peers that are not this code ---- */

#ifdef UVCC_TLS_HAVE_OPENSSL
typedef struct stranger {
    const char *crt, *key; /* NULL: none */
    int min, max;          /* versions; 0: any */
    uint64_t options;
    bool no_alpn;
    const char *alpn; /* NULL: the right one */
    bool server;
} stranger;

static void stranger_alpn(SSL_CTX *x, const char *alpn) {
    unsigned char text[32];
    const size_t n = strlen(alpn);
    text[0] = (unsigned char)n;
    memcpy(text + 1, alpn, n);
    assert_int_equal(SSL_CTX_set_alpn_protos(x, text, (unsigned)n + 1), 0);
}

/* What a stranger made with plain OpenSSL gets from an end: the end's error. */
static int meet(uint32_t library, bool tls12, const stranger *s, const char *why) {
    SSL_CTX *x = SSL_CTX_new(TLS_method());
    SSL_CTX_set_security_level(x, 0);
    SSL_CTX_set_min_proto_version(x, s->min);
    SSL_CTX_set_max_proto_version(x, s->max);
    SSL_CTX_set_options(x, s->options);
    SSL_CTX_set_cipher_list(x, "ALL:@SECLEVEL=0");
    if (s->crt != NULL) {
        assert_int_equal(SSL_CTX_use_certificate_chain_file(x, path(s->crt)), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(x, path(s->key), SSL_FILETYPE_PEM), 1);
    }
    if (!s->no_alpn)
        stranger_alpn(x, s->alpn == NULL ? UVCCI_TLS_ALPN : s->alpn);
    SSL *ssl = SSL_new(x);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    if (s->server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    uvcc_tls_config cfg = by_files(library, 1, "p1.crt", "p1.key", "ca.crt");
    cfg.tls12 = tls12;
    uvcc_tls *t = made(&cfg);
    pipe2 p = {0};
    pipe_open(&p, s->server ? t : NULL, s->server ? NULL : t, 2);
    end *e = &p.end[s->server ? 0 : 1];
    for (int i = 0; i < 8 && e->rc == 0; i++) {
        unsigned char bytes[16384];
        (void)SSL_do_handshake(ssl);
        int n = BIO_read(out, bytes, sizeof bytes);
        if (n > 0)
            wire_send(e->in, bytes, (size_t)n);
        pipe_shake(&p);
        if (e->out->len > e->out->at)
            BIO_write(in, e->out->bytes + e->out->at, (int)(e->out->len - e->out->at));
        e->out->at = e->out->len;
    }
    const int rc = e->rc;
    if (rc != 1 && strstr(uvcci_tls_why(e->c), why) == NULL)
        fail_msg("%d, %s: not %s", rc, uvcci_tls_why(e->c), why);
    SSL_free(ssl);
    SSL_CTX_free(x);
    pipe_free(&p);
    uvcc_tls_free(t);
    return rc;
}

static void test_strangers(void **state) {
    (void)state;
    const int v11 = TLS1_1_VERSION, v12 = TLS1_2_VERSION, v13 = TLS1_3_VERSION;
    EACH_LIBRARY(l) {
        const int top = l == UVCC_TLS_OPENSSL ? v13 : v12;
        const stranger good = {.crt = "p2.crt", .key = "p2.key", .max = top};
        stranger s = good;
        assert_int_equal(meet(l, true, &s, ""), 1);
        for (int max = v12; max <= top; max++) {
            s = (stranger){.max = max};
            assert_int_equal(meet(l, true, &s, "shown no certificate"), UVCC_ERR_AUTH);
            s = good, s.max = max, s.no_alpn = true;
            assert_int_equal(meet(l, true, &s, "ALPN"), UVCC_ERR_MISMATCH);
            s = good, s.max = max, s.alpn = "http/1.1";
            assert_true(meet(l, true, &s, "") < 0);
        }
        s = good, s.max = v12, s.options = SSL_OP_NO_EXTENDED_MASTER_SECRET;
        assert_int_equal(meet(l, true, &s, "extended master secret"), UVCC_ERR_MISMATCH);
        s = good, s.min = s.max = v11;
        assert_true(meet(l, true, &s, "in common") < 0);
        if (l == UVCC_TLS_OPENSSL) {
            s = good, s.max = v12;
            assert_int_equal(meet(l, true, &s, ""), 1);
            assert_int_equal(meet(l, false, &s, "in common"), UVCC_ERR_MISMATCH);
        }
        /* Called ones: without ALPN, without extended master secret, old. */
        s = good, s.server = true, s.no_alpn = true;
        assert_int_equal(meet(l, true, &s, "ALPN"), UVCC_ERR_MISMATCH);
        s = good, s.server = true, s.min = s.max = v11;
        assert_true(meet(l, true, &s, "") < 0);
    }
}
#else
static void test_strangers(void **state) {
    (void)state;
    skip();
}
#endif

/* ---- configuration ---- */

static void wrong(const uvcc_tls_config *cfg, const char *why) {
    uvcc_tls *t = (uvcc_tls *)1;
    logged[0] = '\0';
    assert_int_equal(uvcc_tls_new(&t, cfg), UVCC_ERR_CONFIG);
    assert_null(t);
    if (strstr(logged, why) == NULL)
        fail_msg("%s: not %s", logged, why);
}

static void test_configurations_that_are_wrong(void **state) {
    (void)state;
    assert_int_equal(uvcc_tls_new(NULL, NULL), UVCC_ERR_USAGE);
    assert_false(uvcc_tls_is_here(3));
    assert_string_equal(uvcc_tls_name(UVCC_TLS_OPENSSL), "openssl");
    assert_null(uvcc_tls_name(9));
    EACH_LIBRARY(l) {
        uvcc_tls_config cfg = config(l, 1);
        wrong(&cfg, "neither");
        cfg = by_files(l, 1, "p1.crt", "p1.key", "ca.crt");
        const uvcc_tls_config good = cfg;
        cfg.key = NULL;
        wrong(&cfg, "all three");
        cfg = good, cfg.psk[0] = keys[0], cfg.psk_len[0] = 32;
        wrong(&cfg, "not both");
        cfg = good, cfg.size--;
        wrong(&cfg, "");
        cfg = good, cfg.party = 3;
        wrong(&cfg, "party");
        cfg = good, cfg.alloc.alloc = NULL;
        wrong(&cfg, "alloc");
        cfg = good, cfg.library = 3;
        wrong(&cfg, "library");
        cfg = good, cfg.name[0] = "party-2";
        wrong(&cfg, "name[2] is name[0]");
        cfg = good, cfg.name[0] = "";
        wrong(&cfg, "name[0]");
        cfg = good, cfg.certificate = path("nothing");
        wrong(&cfg, "cannot open");
        cfg = good, cfg.certificate = dir;
        wrong(&cfg, "is no file");
        cfg = good, cfg.certificate = path("p1.key");
        wrong(&cfg, "certificate: no certificate");
        cfg = good, cfg.authorities = path("p1.key");
        wrong(&cfg, "authorities: no certificate");
        cfg = good, cfg.authorities = path("power.crt");
        wrong(&cfg, "CA:FALSE");
        cfg = good, cfg.crl = path("ca.crt");
        wrong(&cfg, "crl: no revocation list");
        cfg = good, cfg.crl = path("nothing");
        wrong(&cfg, "crl: cannot open");
        cfg = good, cfg.authorities = path("two.crt"), cfg.crl = path("empty.crl");
        wrong(&cfg, "crl: there is no list of");
        cfg = by_keys(l, 1), cfg.crl = path("empty.crl");
        wrong(&cfg, "revocation lists are of certificates");
        cfg = good, cfg.key = path("p2.key");
        wrong(&cfg, "not that of the certificate");
        cfg = good, cfg.key = path("locked.key");
        wrong(&cfg, "passphrase");
        assert_int_equal(chmod(path("p1.key"), 0640), 0);
        wrong(&good, "chmod 600");
        assert_int_equal(chmod(path("p1.key"), 0604), 0);
        wrong(&good, "chmod 600");
        assert_int_equal(chmod(path("p1.key"), 0600), 0);
        if (geteuid() == 0) {
            assert_int_equal(chown(path("p1.key"), 1234, 0), 0);
            wrong(&good, "user 1234");
            assert_int_equal(chown(path("p1.key"), 0, 0), 0);
        }
        cfg = by_keys(l, 1), cfg.psk_len[0] = 31;
        wrong(&cfg, "31 bytes");
        cfg = by_keys(l, 1), cfg.psk_len[2] = 65;
        wrong(&cfg, "65 bytes");
        cfg = by_keys(l, 1), cfg.psk[0] = cfg.psk[2] = keys[0],
        cfg.psk_len[0] = cfg.psk_len[2] = 32;
        wrong(&cfg, "psk[2] is psk[0]");
        /* One peer has no key: it cannot be called. */
        cfg = by_keys(l, 1), cfg.psk[0] = NULL;
        uvcc_tls *t = made(&cfg);
        uvcci_tls_conn *c;
        end e;
        const uvcci_tls_io io = {.recv = end_recv, .send = end_send, .user = &e};
        assert_int_equal(uvcci_tls_open(&c, t, false, 0, &io), UVCC_ERR_CONFIG);
        assert_non_null(strstr(logged, "psk[0]"));
        assert_int_equal(uvcci_tls_open(&c, t, false, 1, &io), UVCC_ERR_USAGE);
        assert_int_equal(uvcci_tls_open(&c, t, false, 3, &io), UVCC_ERR_USAGE);
        assert_int_equal(uvcci_tls_open(&c, t, true, 2, &io), UVCC_ERR_USAGE);
        uvcc_tls_free(t);
    }
    uvcc_tls_free(NULL);
}

/* What is not built in is said. */
static void test_a_library_that_is_not_here(void **state) {
    (void)state;
    for (uint32_t l = UVCC_TLS_OPENSSL; l <= UVCC_TLS_MBEDTLS; l++) {
        uvcc_tls_config cfg = by_keys(l, 0);
        uvcc_tls *t;
        if (!uvcc_tls_is_here(l))
            assert_int_equal(uvcc_tls_new(&t, &cfg), UVCC_ERR_NOT_FOUND);
    }
    assert_int_equal(uvcc_tls_is_here(UVCC_TLS_AUTO),
                     uvcc_tls_is_here(UVCC_TLS_OPENSSL) || uvcc_tls_is_here(UVCC_TLS_MBEDTLS));
}

/* Every allocation fails once: an error or a later success, and all memory comes back. */
static void test_memory_that_is_refused(void **state) {
    (void)state;
    EACH_WAY(w) {
        uvcc_tls *b = of_party(w->lib[1], 2, w->shared);
        bool through = false;
        for (size_t at = 1; !through; at++) {
            test_alloc memory = {.fail_at = at};
            uvcc_tls_config cfg = w->shared ? by_keys(w->lib[0], 1)
                                            : by_files(w->lib[0], 1, "p1.crt", "p1.key", "ca.crt");
            cfg.alloc = test_allocator(&memory);
            uvcc_tls *a = NULL;
            uvcci_tls_conn *c = NULL;
            int rc = uvcc_tls_new(&a, &cfg);
            assert_true(rc == 0 || rc == UVCC_ERR_NOMEM);
            pipe2 p = {0};
            if (rc == 0) {
                pipe_open(&p, NULL, b, 2);
                p.end[0].in = &p.back;
                p.end[0].out = &p.there;
                const uvcci_tls_io io = {.recv = end_recv, .send = end_send, .user = &p.end[0]};
                rc = uvcci_tls_open(&c, a, false, 2, &io);
                assert_true(rc == 0 || (rc == UVCC_ERR_NOMEM && c == NULL));
                p.end[0].c = c;
            }
            if (rc == 0) {
                pipe_shake(&p);
                if (p.end[0].rc == UVCC_ERR_NOMEM) { /* it goes on */
                    p.end[0].rc = 0;
                    p.there.closed = false;
                    pipe_shake(&p);
                }
                shaken(&p, 1, 2);
                uint8_t bytes[300] = {1};
                const uvcc_slice s[] = {{bytes, 100}, {bytes, 200}};
                ptrdiff_t n = uvcci_tls_send(c, s, 2, 0);
                if (n == UVCC_ERR_NOMEM)
                    n = uvcci_tls_send(c, s, 2, 0);
                assert_int_equal(n, 300);
                carry(&p, 1, s, 2, 300);
                through = memory.calls < at;
            }
            pipe_free(&p);
            uvcc_tls_free(a);
            assert_int_equal(memory.live_blocks, 0);
        }
        uvcc_tls_free(b);
    }
}

/* --files DIR: party-P.crt, party-P.key and trusted.crt there are good for all, in all ways; what
 * is stolen is refused by who has ca.crl, if that is there. */
static char *folder;
static void test_these_files(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "%s", folder);
    EACH_WAY(w) {
        for (int i = 0; i < 6 && !w->shared; i++) {
            static const uint8_t pairs[][2] = {{0, 1}, {1, 2}, {2, 0}, {1, 0}, {2, 1}, {0, 2}};
            const uint8_t caller = pairs[i][0], called = pairs[i][1];
            char name[2][16];
            snprintf(name[0], sizeof name[0], "party-%u", caller);
            snprintf(name[1], sizeof name[1], "party-%u", called);
            uvcc_tls *a = named(w->lib[0], caller, name[0], "trusted.crt");
            uvcc_tls *b = named(w->lib[1], called, name[1], "trusted.crt");
            pipe2 p = {0};
            pipe_open(&p, a, b, called);
            pipe_shake(&p);
            shaken(&p, caller, called);
            pipe_free(&p);
            uvcc_tls_free(a);
            uvcc_tls_free(b);
        }
        if (w->shared || access(path("ca.crl"), F_OK) != 0)
            continue;
        refuses(named(w->lib[0], 1, "stolen", "trusted.crt"),
                listed(w->lib[1], 2, "party-2", "trusted.crt", "ca.crl"), 2, 1, UVCC_ERR_AUTH,
                "it needs a new one");
        talks(named(w->lib[0], 1, "party-1", "trusted.crt"),
              listed(w->lib[1], 2, "party-2", "trusted.crt", "ca.crl"));
    }
}

/* --corpus DIR: what the two ends say, as inputs of fuzz_tls. */
static char *corpus;
static void test_write_corpus(void **state) {
    (void)state;
    EACH_WAY(w) {
        if (!w->shared)
            continue;
        uvcc_tls *a = of_party(w->lib[0], 0, true), *b = of_party(w->lib[1], 1, true);
        pipe2 p = {0};
        pipe_open(&p, a, b, 1);
        pipe_shake(&p);
        shaken(&p, 0, 1);
        for (int called = 0; called < 2; called++) {
            char file[300];
            const wire *said = called ? &p.there : &p.back;
            const uint32_t lib = w->lib[called];
            snprintf(file, sizeof file, "%s/%s-%s-%s", corpus, called ? "to" : "from",
                     uvcc_tls_name(w->lib[1]), uvcc_tls_name(w->lib[0]));
            FILE *f = fopen(file, "wb");
            assert_non_null(f);
            fputc((called ? 1 : 0) | (lib == UVCC_TLS_MBEDTLS ? 2 : 0) | 4, f);
            fputc(0, f);
            assert_int_equal(fwrite(said->bytes, 1, said->len, f), said->len);
            fclose(f);
        }
        pipe_free(&p);
        uvcc_tls_free(a);
        uvcc_tls_free(b);
    }
}

int main(int argc, char **argv) {
    if (!uvcc_tls_is_here(UVCC_TLS_AUTO)) {
        puts("neither OpenSSL's libssl nor mbedTLS 2.28 was there at the build: skipped");
        return 77;
    }
    if (argc == 3 && strcmp(argv[1], "--corpus") == 0) {
        corpus = argv[2];
        const struct CMUnitTest files[] = {cmocka_unit_test(test_write_corpus)};
        return cmocka_run_group_tests(files, NULL, NULL);
    }
    if (argc == 3 && strcmp(argv[1], "--files") == 0) {
        folder = argv[2];
        const struct CMUnitTest files[] = {cmocka_unit_test(test_these_files)};
        return cmocka_run_group_tests(files, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ways_talk),
        cmocka_unit_test(test_a_full_wire_gives_again),
        cmocka_unit_test(test_records_are_full),
        cmocka_unit_test(test_pending_counts_whole_records),
        cmocka_unit_test(test_bindings_tell_connections_apart),
        cmocka_unit_test(test_chains_and_self_signed),
        cmocka_unit_test(test_new_keys),
        cmocka_unit_test(test_certificates_that_are_wrong),
        cmocka_unit_test(test_revoked),
        cmocka_unit_test(test_own_names),
        cmocka_unit_test(test_keys_that_are_wrong),
        cmocka_unit_test(test_keys_against_certificates),
        cmocka_unit_test(test_an_end_does_not_talk_to_itself),
        cmocka_unit_test(test_what_is_not_tls),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_gone_and_damaged),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_configurations_that_are_wrong),
        cmocka_unit_test(test_a_library_that_is_not_here),
        cmocka_unit_test(test_memory_that_is_refused),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
