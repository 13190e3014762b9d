/* uvcc/uvcc.h - everything. */
#ifndef UVCC_UVCC_H
#define UVCC_UVCC_H
#include <uvcc/audit.h>
#include <uvcc/blv1.h>
#include <uvcc/collective.h>
#include <uvcc/compute.h>
#include <uvcc/frame.h>
#include <uvcc/function.h>
#include <uvcc/host.h>
#include <uvcc/link.h>
#include <uvcc/loopback.h>
#include <uvcc/mlp.h>
#include <uvcc/nonlinear.h>
#include <uvcc/pipeline.h>
#include <uvcc/program.h>
#include <uvcc/record.h>
#include <uvcc/session.h>
#include <uvcc/transformer.h>
#include <uvcc/triple.h>
#include <uvcc/types.h>
#endif
