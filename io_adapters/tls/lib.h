/* SPDX-License-Identifier: Apache-2.0 */
/* lib.h - between tls.c, which has what all TLS libraries share, and the file of each library.
 *
 * tls.c owns ciphertext: it reads ahead in large pieces and hands the library what it asks for, and
 * it takes whole records off the library, which it sends as there is room. So a library never has
 * half a record outside, and a write is never to be repeated with the same bytes. */
#ifndef UVCC_IO_TLS_LIB_H
#define UVCC_IO_TLS_LIB_H

#include "io_adapters/tls/conn.h"

enum {
    UVCCI_TLS_RECORD_BYTES = 16384, /* plaintext of a record */
    UVCCI_TLS_RECORD_ROOM = 18432,  /* what one takes as ciphertext, even in pieces of 512 bytes */
    UVCCI_TLS_BUFFER_BYTES = 4 * UVCCI_TLS_RECORD_BYTES + 4096, /* four records, each way */
    UVCCI_TLS_KEY_BYTES = 32,
    UVCCI_TLS_NAME_BYTES = 256, /* of a DNS name, with its end */
    UVCCI_TLS_WHY_BYTES = 256,
};
#define UVCCI_TLS_ALPN "uvcc/1"

/* The label and length of the channel's binding: RFC 9266. Its context is there and empty. */
#define UVCCI_TLS_BINDING_LABEL "EXPORTER-Channel-Binding"

/* What the files hold: PEM, with a zero behind it that len does not count. */
typedef struct uvcci_tls_text {
    char *text;
    size_t len, room;
} uvcci_tls_text;
typedef struct uvcci_tls_files {
    uvcci_tls_text certificate, key, authorities, crl; /* crl.text NULL: none */
} uvcci_tls_files;

typedef struct uvcci_tls_lib {
    /* Reads the files (NULL: shared keys are used), sets t->context. */
    int (*context)(uvcc_tls *t, const uvcci_tls_files *files);
    void (*context_free)(uvcc_tls *t);
    /* HMAC-SHA-256. */
    int (*hmac)(const uint8_t *key, size_t key_len, const uint8_t *text, size_t len,
                uint8_t out[UVCCI_TLS_KEY_BYTES]);
    int (*open)(uvcci_tls_conn *c);
    void (*free)(uvcci_tls_conn *c);
    /* 1: done, and c->peer proved; UVCC_ERR_AGAIN; else uvcci_tls_fail() was called. */
    int (*handshake)(uvcci_tls_conn *c);
    int (*binding)(uvcci_tls_conn *c, uint8_t out[32]);
    /* As uvcci_tls_io.recv; an error: uvcci_tls_fail() was called. */
    ptrdiff_t (*read)(uvcci_tls_conn *c, uint8_t *bytes, size_t cap);
    /* Of a record or less, for which there is room outside; what it took of it. */
    ptrdiff_t (*write)(uvcci_tls_conn *c, const uint8_t *bytes, size_t len);
    size_t (*pending)(const uvcci_tls_conn *c);
    /* New keys for what is sent from the next record on. NULL: the library has nothing for it. */
    void (*rekey)(uvcci_tls_conn *c);
    void (*close)(uvcci_tls_conn *c);
} uvcci_tls_lib;

/* TLS 1.2 and 1.3 derive differently from a shared key: each gets one of its own. */
typedef struct uvcci_tls_psk {
    bool here;
    uint8_t tls12[UVCCI_TLS_KEY_BYTES], tls13[UVCCI_TLS_KEY_BYTES];
} uvcci_tls_psk;

struct uvcc_tls {
    uvcc_allocator alloc;
    uvcc_logger log;
    uint32_t library;
    uint8_t party;
    bool tls12, shared_keys;
    uint32_t own_names; /* of parties, in the own certificate */
    char name[UVCC_PARTIES][UVCCI_TLS_NAME_BYTES];
    uvcci_tls_psk psk[UVCC_PARTIES];
    char identity[8];         /* "uvcc-P" of this end */
    uint64_t records_per_key; /* sent; then lib->rekey() */
    const uvcci_tls_lib *lib;
    void *context;
};

struct uvcci_tls_conn {
    uvcc_tls *t;
    uvcci_tls_io io;
    void *lib; /* the library's */
    bool server;
    uint8_t peer;     /* at the server UVCC_PARTIES until it is known */
    bool proved;      /* that peer is who it is */
    bool done;        /* the handshake */
    bool ended;       /* by close_notify */
    bool eof;         /* the io said that it ended */
    int io_error;     /* or that it is gone */
    int error;        /* why[] says it; sticks */
    uint64_t records; /* sent under the present key */

    uint8_t *in; /* ciphertext read ahead: [in_at, in_len) */
    size_t in_at, in_len;
    uint64_t in_end, in_used, in_whole; /* of the stream: received; taken by the library; up to
                                           where all records are whole */
    uint8_t in_first[5];                /* of the stream */
    uint8_t in_head[5];                 /* of the record that is on its way */
    uint32_t in_head_len, in_left;

    uint8_t *out; /* ciphertext that waits: [out_at, out_len) */
    size_t out_at, out_len;
    uint8_t *stage; /* plaintext of a record that several slices make */
    char why[UVCCI_TLS_WHY_BYTES];
};

#ifdef UVCC_TLS_HAVE_OPENSSL
extern const uvcci_tls_lib uvcci_tls_openssl;
#endif
#ifdef UVCC_TLS_HAVE_MBEDTLS
extern const uvcci_tls_lib uvcci_tls_mbedtls;
#endif

/* ---- for libraries ---- */

/* Ciphertext in: bytes; 0: it ended; UVCC_ERR_AGAIN, or gone. */
ptrdiff_t uvcci_tls_take(uvcci_tls_conn *c, uint8_t *bytes, size_t cap);
/* Ciphertext out: bytes, or UVCC_ERR_AGAIN: no room. */
ptrdiff_t uvcci_tls_put(uvcci_tls_conn *c, const uint8_t *bytes, size_t len);
/* Keeps the first error of a connection and its sentence; returns it. */
int uvcci_tls_fail(uvcci_tls_conn *c, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The called end: its shared key's identity is of nobody with whom there is one. */
int uvcci_tls_stranger(uvcci_tls_conn *c);
/* If the library failed for what tls.c knows better (the io is gone, what came is not TLS): the
 * error, else 0. */
int uvcci_tls_lost(uvcci_tls_conn *c);
/* What an alert of the other end says: its error. */
int uvcci_tls_alert(uvcci_tls_conn *c, uint32_t alert, const char *text);
/* A configuration that cannot be: UVCC_ERR_CONFIG, and a line in the log. */
int uvcci_tls_wrong(const uvcc_tls *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The bits of the parties that have this name. */
uint32_t uvcci_tls_parties_of(const uvcc_tls *t, const uint8_t *name, size_t len);
/* What is wrong with a certificate, as far as there is something to do about it. */
typedef enum uvcci_tls_fault {
    UVCCI_TLS_FAULT_OTHER,
    UVCCI_TLS_FAULT_EXPIRED,
    UVCCI_TLS_FAULT_EARLY,
    UVCCI_TLS_FAULT_STRANGE, /* of no authority that is known here */
    UVCCI_TLS_FAULT_REVOKED,
    UVCCI_TLS_FAULT_OLD_LIST, /* its authority's list is out of date */
} uvcci_tls_fault;
/* The other end's certificate is refused: the library's sentence, and what to do. */
int uvcci_tls_refuse(uvcci_tls_conn *c, uvcci_tls_fault fault, const char *text);
/* An authority that may sign has no list in the file. */
int uvcci_tls_no_list(const uvcc_tls *t, const char *authority);
/* Whether an authority that carries the names of `parties` may be one. */
int uvcci_tls_check_authority(const uvcc_tls *t, uint32_t parties, bool may_sign);
/* The certificate's names decide who the other end is: 0 and c->peer, or the error. */
int uvcci_tls_named(uvcci_tls_conn *c, uint32_t parties);
/* So does the identity of a shared key; UVCC_PARTIES: nobody's with whom there is one. */
uint8_t uvcci_tls_identified(const uvcc_tls *t, const uint8_t *identity, size_t len);

#endif
