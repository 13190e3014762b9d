/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/uvcc.h - what a host needs: programs, sessions, executors, and the hooks for them.
 *
 * The rest is included by name where it is used: models (mlp.h, transformer.h), evidence (audit.h),
 * logs (record.h), simulation (loopback.h), pipelines on paper (pipeline.h), and the codecs and
 * links below a session (frame.h, blv1.h, link.h). */
#ifndef UVCC_UVCC_H
#define UVCC_UVCC_H
#include <uvcc/checkpoint.h>
#include <uvcc/client.h>
#include <uvcc/collective.h>
#include <uvcc/compute.h>
#include <uvcc/function.h>
#include <uvcc/host.h>
#include <uvcc/nonlinear.h>
#include <uvcc/policy.h>
#include <uvcc/program.h>
#include <uvcc/session.h>
#include <uvcc/trace.h>
#include <uvcc/triple.h>
#include <uvcc/types.h>
#endif
