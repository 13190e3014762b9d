/* bench_link_tun.c - stub */
#include "bench_link.h"
void bench_tun(const bench_options *o) {
    (void)o;
}
