/* dealing.h - keys dealt ahead: by the party that is OTHER on a gate's block, to HEAD and TAIL, as
 * soon as the step is agreed and the links have room. */
#ifndef UVCCI_DEALING_H
#define UVCCI_DEALING_H

#include "exec/runtime/core.h"

/* Deals what can be dealt now. True if anything changed. */
bool uvcci_deal_advance(uvcc_session *s);
void uvcci_deal_job_done(uvcc_session *s, uvcci_instance *r);
/* Drops what an op's deal holds. */
void uvcci_deal_free(uvcc_session *s, uvcci_instance *r);

#endif
