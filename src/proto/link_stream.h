/* SPDX-License-Identifier: Apache-2.0 */
/* link_stream.h - frames out of a byte stream that is cut anywhere. */
#ifndef UVCCI_LINK_STREAM_H
#define UVCCI_LINK_STREAM_H

#include "proto/link_open.h"
#include "proto/link_state.h"

/* Any run of bytes; all are consumed. 0, UVCC_ERR_STREAM_BROKEN or UVCC_ERR_NOMEM, and after either
 * UVCC_ERR_STREAM_BROKEN until uvcci_stream_reset. */
int uvcci_stream_feed(uvcc_link *l, const uint8_t *data, size_t len);
/* Some of what is left in *from, at least a byte: frames that can be opened side by side, or a
 * piece of no more than 256 KiB. The same errors. */
int uvcci_stream_feed_some(uvcc_link *l, uvcci_slices *from);
/* Where the next bytes of the stream may be put, and how many at most: the rest of the body of the
 * frame that is coming. 0: nowhere. */
size_t uvcci_stream_offer(uvcc_link *l, uint8_t **to);
/* What uvcci_stream_offer() said last, if nothing came since; else 0. */
size_t uvcci_stream_offered(const uvcc_link *l, const uint8_t **at);
/* n bytes, at least one and at most as many as are offered, were put there: as uvcci_stream_feed()
 * of them. */
int uvcci_stream_filled(uvcc_link *l, size_t n);
/* Another stream, or none: a frame that is not whole is forgotten. */
void uvcci_stream_reset(uvcc_link *l);
/* No frame is half here. */
bool uvcci_stream_quiet(const uvcc_link *l);
void uvcci_stream_trim(uvcc_link *l);

#endif
