/* link_hello.h - what a session needs of a link's HELLO besides the public calls. */
#ifndef UVCCI_LINK_HELLO_H
#define UVCCI_LINK_HELLO_H

#include <uvcc/link.h>

#define UVCCI_HELLO_MAX_BYTES 256u

/* As uvcc_link_poll_hello(), which skips those that are `foreign`: unsealed, from this peer to us,
 * under another session's tag. They say why that peer is not heard, and nothing else. */
size_t uvcci_link_poll_hello(uvcc_link *l, uint8_t out[UVCCI_HELLO_MAX_BYTES], bool *sealed,
                             bool *foreign);

#endif
