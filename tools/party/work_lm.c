/* SPDX-License-Identifier: Apache-2.0 */
/* work_lm.c - see work_lm.h. */
#include "work_lm.h"

#include "work.h"

#include <stdio.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "../flags_json.h"
#include "../report.h"

#define MESSAGE_BYTES  512u
#define TEXT_BYTES_MAX ((uint64_t)1 << 30) /* as lm/text.c reads */

int work_lm_read(const char *job, const json_t *run, const lm_split *split, work_lm *out) {
    static const char *const more[] = {"kind", "text_owner", "text_bytes", NULL};
    char text[MESSAGE_BYTES] = "", where[64];
    const flag_message m = {text, sizeof text};
    uint64_t owner = 0;
    (void)snprintf(where, sizeof where, "%s.run", job);
    if (lm_options_of_job(&out->o, job, run, split, more, text, sizeof text) != 0 ||
        flags_json_count(run, where, "text_owner", 0, UVCC_PARTIES - 1, &owner, NULL, &m) != 0 ||
        flags_json_count(run, where, "text_bytes", (uint64_t)out->o.context + 1, TEXT_BYTES_MAX,
                         &out->text_bytes, &out->text_bytes_given, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    const int status = lm_model_config(&out->cfg, &out->o, text, sizeof text);
    out->cfg.text_owner = (uint8_t)owner;
    if (status == EXIT_DONE)
        return status;
    lm_options_job_words(job, text, sizeof text);
    return report_error(status, "%s: %s", where, text);
}

int work_lm_read_job(const char *where, const json_t *job, work_lm *out) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    const json_t *run = json_object_get(job, "run");
    const char *kind = json_string_value(json_object_get(run, "kind"));
    uint64_t v[] = {1, 1, 1, 1, 0};
    if (kind == NULL || strcmp(kind, "transformer") != 0)
        return report_error(EXIT_BAD_INPUT,
                            "%s: give the \"job\" of the training, whose run.kind is "
                            "\"transformer\", as it was",
                            where);
    if (flags_json_count(job, where, "replicas", 1, 64, &v[0], NULL, &m) != 0 ||
        flags_json_count(job, where, "stages", 1, 64, &v[1], NULL, &m) != 0 ||
        flags_json_count(job, where, "tensor_ranks", 1, 64, &v[2], NULL, &m) != 0 ||
        flags_json_count(job, where, "microbatches", 1, 1024, &v[3], NULL, &m) != 0 ||
        flags_json_count(job, where, "sks", 0, 1000, &v[4], NULL, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    const lm_split split = {(uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3],
                            (uint32_t)v[4]};
    return work_lm_read(where, run, &split, out);
}

int work_lm_program(const char *job, const uvcc_transformer_config *cfg,
                    const uvcc_transformer_worker *at, uvcc_program **out) {
    char message[MESSAGE_BYTES] = "";
    const int status = lm_model_program(cfg, at, out, message, sizeof message);
    if (status == EXIT_DONE)
        return status;
    lm_options_job_words(job, message, sizeof message);
    return report_error(status, "%s", message);
}

int work_lm_set(uvcc_session *s, uint32_t tensor, const char *what, const int64_t *v) {
    const int rc = uvcc_session_set_public(s, tensor, v);
    if (rc == 0 || rc == UVCC_ERR_AGAIN)
        return rc == 0 ? EXIT_DONE : WORK_LATER;
    return report_error(EXIT_FAILED, "%s: %s: %s", what, uvcc_error_text(rc),
                        uvcc_session_error_detail(s));
}
