/* SPDX-License-Identifier: Apache-2.0 */
/* nulls.c - every public function with NULL for each of its pointers, and for all of them: none may
 * crash, and one that returns an int says UVCC_ERR_USAGE (make_nulls.py has which may be NULL).
 * Each call runs in a process of its own, on objects in several states. */
#define _DEFAULT_SOURCE
#include "triangle.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uvcc/audit.h>
#include <uvcc/blv1.h>
#include <uvcc/checkpoint.h>
#include <uvcc/client.h>
#include <uvcc/collective.h>
#include <uvcc/demux.h>
#include <uvcc/dialog.h>
#include <uvcc/finetune.h>
#include <uvcc/frame.h>
#include <uvcc/gpu.h>
#include <uvcc/host.h>
#include <uvcc/link.h>
#include <uvcc/mlp.h>
#include <uvcc/model.h>
#include <uvcc/mpi.h>
#include <uvcc/nccl.h>
#include <uvcc/net.h>
#include <uvcc/nonlinear.h>
#include <uvcc/pipeline.h>
#include <uvcc/prg_uses.h>
#include <uvcc/record.h>
#include <uvcc/request.h>
#include <uvcc/store.h>
#include <uvcc/tls.h>
#include <uvcc/transformer.h>

/* States: of a session new, loaded, started, READY; of a program being built or finished. */
enum { STATES = 4 };

static triangle ready;
static uvcc_program *finished;
static uvcc_store *store;
static char store_dir[] = "/tmp/uvcc-nulls-XXXXXX";
static uint64_t seed = 1;

static void *zeroed(void) {
    void *p = calloc(1, 1u << 16);
    assert_non_null(p);
    return p;
}

static uvcc_program *program(bool finish) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "X", 1, 1, 8, 0, UVCC_TRANSIENT);
    const uint32_t w = test_tensor(p, "W", 1, 1, 8, 0, UVCC_PERSIST);
    const uint32_t z = test_tensor(p, "Z", 1, 1, 9, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, 0, x, 0) >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_ADD,
                                                   .in_count = 2,
                                                   .in = {x, w},
                                                   .out_count = 1,
                                                   .out = {z}}) >= 0);
    if (finish) {
        assert_true(uvcc_program_output(p, 0, z) >= 0);
        assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    }
    return p;
}

static uvcc_program *a_uvcc_program(unsigned v) {
    return program(v != 0);
}

static uvcc_config *a_uvcc_config(void) {
    uvcc_config *c = zeroed();
    static test_alloc mem;
    *c = triangle_config_alone(&mem, &seed);
    return c;
}

static uvcc_session *a_uvcc_session(unsigned v) {
    uvcc_session *s;
    if (v == 3)
        return ready.s[0];
    assert_int_equal(uvcc_session_new(&s, a_uvcc_config()), 0);
    if (v > 0)
        assert_int_equal(uvcc_session_load_program(s, finished), 0);
    if (v > 1)
        assert_int_equal(uvcc_session_start(s, 0), 0);
    return s;
}

static uvcc_link_config *a_uvcc_link_config(void) {
    uvcc_link_config *c = zeroed();
    uvcc_link_config_default(c);
    c->alloc = uvcc_host_allocator();
    c->random = uvcc_host_random();
    c->peer = 1;
    c->datagram = true;
    return c;
}

static uvcc_link *a_uvcc_link(unsigned v) {
    uvcc_link *l;
    assert_int_equal(uvcc_link_new(&l, a_uvcc_link_config()), 0);
    if (v > 0) {
        assert_int_equal(uvcc_link_set_run(l, 1), 0);
        assert_int_equal(uvcc_link_start(l, 0), 0);
    }
    return l;
}

static uvcc_link_msg *a_uvcc_link_msg(unsigned v) {
    uvcc_link_msg *m;
    assert_int_equal(uvcc_link_msg_new(a_uvcc_link(v), UVCC_FRAME_OPEN_BATCH, 8, &m), 0);
    return m;
}

static uvcc_loopback *a_uvcc_loopback(unsigned v) {
    uvcc_loopback *n;
    (void)v;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_loopback_new(&n, &al, 2, false, 1), 0);
    return n;
}

static uvcc_demux *a_uvcc_demux(unsigned v) {
    uvcc_demux *d;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_demux_new(&d, &al), 0);
    if (v > 0)
        assert_int_equal(uvcc_demux_add(d, 1, d), 0);
    return d;
}

static uvcc_net_config *a_uvcc_net_config(void) {
    uvcc_net_config *c = zeroed();
    uvcc_net_config_default(c);
    c->alloc = uvcc_host_allocator();
    c->random = uvcc_host_random();
    return c;
}

/* One for all calls: descriptors are few, and a call without a NULL may free none of it. */
static uvcc_net *a_uvcc_net(unsigned v) {
    static uvcc_net *n;
    (void)v;
    if (n == NULL)
        assert_int_equal(uvcc_net_new(&n, a_uvcc_net_config()), 0);
    return n;
}

static uvcc_net_session *a_uvcc_net_session(void) {
    uvcc_net_session *how = zeroed();
    how->size = sizeof *how;
    return how;
}

static uvcc_net_link *a_uvcc_net_link(void) {
    uvcc_net_link *how = zeroed();
    how->size = sizeof *how;
    how->peer = 1;
    how->sid_tag = 1;
    return how;
}

static uvcc_net_peer *a_uvcc_net_peer(void) {
    uvcc_net_peer *out = zeroed();
    out->size = sizeof *out;
    return out;
}

static uvcc_net_refusal *a_uvcc_net_refusal(void) {
    uvcc_net_refusal *out = zeroed();
    out->size = sizeof *out;
    return out;
}

static uvcc_tls_config *a_uvcc_tls_config(void) {
    uvcc_tls_config *c = zeroed();
    c->size = sizeof *c;
    c->alloc = uvcc_host_allocator();
    return c;
}

static uvcc_cpu *a_uvcc_cpu(unsigned v) {
    uvcc_cpu *c;
    (void)v;
    const uvcc_cpu_config cfg = {.size = sizeof cfg, .alloc = uvcc_host_allocator()};
    assert_int_equal(uvcc_cpu_new(&c, &cfg), 0);
    return c;
}

static uvcc_collective *a_uvcc_collective(unsigned v) {
    uvcc_collective *c;
    (void)v;
    const uvcc_collective_config cfg = {.size = sizeof cfg,
                                        .alloc = uvcc_host_allocator(),
                                        .replicas = 1,
                                        .stages = 1,
                                        .tp_ranks = 1};
    assert_int_equal(uvcc_collective_new(&c, &cfg), 0);
    return c;
}

static uvcc_collective_order *a_uvcc_collective_order(unsigned v) {
    uvcc_collective_order *o;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_collective_order_new(&o, &al, v & 1), 0);
    return o;
}

static uvcc_reference *a_uvcc_reference(unsigned v) {
    uvcc_reference *r;
    (void)v;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_reference_new(&r, finished, &al), 0);
    return r;
}

static uvcc_prg_uses *a_uvcc_prg_uses(unsigned v) {
    uvcc_prg_uses *u;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_prg_uses_new(&u, &al, v % 2 != 0), 0);
    return u;
}

static uvcc_triple_store *a_uvcc_triple_store(unsigned v) {
    uvcc_triple_store *t;
    (void)v;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_triple_store_new(&t, &al), 0);
    return t;
}

static uvcc_store *a_uvcc_store(unsigned v) {
    (void)v;
    return store;
}

static uvcc_store_config *a_uvcc_store_config(void) {
    uvcc_store_config *c = zeroed();
    uvcc_store_config_default(c);
    c->dir = store_dir;
    return c;
}

static uvcc_allocator *a_uvcc_allocator(void) {
    uvcc_allocator *al = zeroed();
    *al = uvcc_host_allocator();
    return al;
}

static uvcc_random *a_uvcc_random(void) {
    uvcc_random *r = zeroed();
    *r = uvcc_host_random();
    return r;
}

static uvcc_finetune_config *a_uvcc_finetune_config(void) {
    uvcc_finetune_config *c = zeroed();
    assert_int_equal(uvcc_finetune_default(c, sizeof *c), 0);
    return c;
}

static uvcc_transformer_config *a_uvcc_transformer_config(void) {
    uvcc_transformer_config *c = zeroed();
    assert_int_equal(uvcc_transformer_default(c, sizeof *c), 0);
    return c;
}

static uvcc_model_config *a_uvcc_model_config(void) {
    uvcc_model_config *c = zeroed();
    assert_int_equal(uvcc_model_default(c, sizeof *c), 0);
    c->width = c->ff_width = 4;
    c->heads = 1;
    c->tokens = 2;
    return c;
}

static uvcc_mlp_config *a_uvcc_mlp_config(void) {
    uvcc_mlp_config *c = zeroed();
    *c = (uvcc_mlp_config){.features = 2,
                           .classes = 2,
                           .hidden_count = 1,
                           .hidden = {2},
                           .batch = 2,
                           .lr_shift = 3,
                           .frac_bits = 8};
    return c;
}

static uvcc_peer_info *a_uvcc_peer_info(void) {
    uvcc_peer_info *i = zeroed();
    i->size = sizeof *i;
    return i;
}

/* One call, in a child: its answer, or how it ended. */
static int faults;
static void judge(const char *name, const char *what, unsigned v, bool must,
                  int (*call)(unsigned)) {
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
        for (unsigned i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
            (void)signal(crashes[i], SIG_DFL); /* cmocka has handlers that exit */
        const int rc = call(v);
        _exit(must && rc != UVCC_ERR_USAGE ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    faults++;
    print_error("%s with %s NULL, state %u: %s\n", name, what, v,
                WIFEXITED(status) && WEXITSTATUS(status) == 1 ? "not UVCC_ERR_USAGE"
                                                              : "it crashed");
}

#define NULLS(name, what, must, ...)                                                               \
    static int CALL(__LINE__)(unsigned v) {                                                        \
        (void)v;                                                                                   \
        __VA_ARGS__                                                                                \
    }
#define CALL(line)  CALL_(line)
#define CALL_(line) call_##line
#include "nulls.inc"
#undef NULLS

static const struct {
    const char *name, *what;
    bool must;
    int (*call)(unsigned);
} calls[] = {
#define NULLS(name, what, must, ...) {name, what, must, CALL(__LINE__)},
#include "nulls.inc"
#undef NULLS
};

static void every_function(void **state) {
    (void)state;
    finished = program(true);
    triangle_open(&ready, finished, &(triangle_options){.seed = 3});
    triangle_ready(&ready);
    assert_non_null(mkdtemp(store_dir));
    uvcc_store_config *kept = a_uvcc_store_config();
    assert_int_equal(uvcc_store_open(&store, kept, NULL, 0), 0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (unsigned v = 0; v < STATES; v++)
            judge(calls[i].name, calls[i].what, v, calls[i].must, calls[i].call);
    uvcc_store_free(store);
    free(kept);
    static const char *const files[] = {"lock", "key"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "%s/%s", store_dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(store_dir);
    assert_int_equal(faults, 0);
    triangle_free(&ready);
    uvcc_program_free(finished);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
