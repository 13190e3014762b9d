#!/usr/bin/env python3
"""make_nulls.py HEADERS... > nulls.inc: a call of every public function for each of its pointers, with
NULL there and something good everywhere else, and one with NULL everywhere.

Read from the headers themselves, so a new function is in the test as soon as it is declared; a type
that this file cannot make fails the build. What a call may say to NULL: UVCC_ERR_USAGE if it returns
int, unless OPTIONAL has the pointer; anything but a crash if it returns something else."""
import re
import sys

# Objects that nulls.c makes; everything else that is pointed at is zeroed memory.
OPAQUE = {'uvcc_session', 'uvcc_program', 'uvcc_link', 'uvcc_link_msg', 'uvcc_loopback', 'uvcc_cpu',
          'uvcc_collective', 'uvcc_collective_order', 'uvcc_reference', 'uvcc_triple_store',
          'uvcc_prg_uses', 'uvcc_demux', 'uvcc_net', 'uvcc_store'}
# Complete types that mean nothing when they are all zero.
MADE = {'uvcc_allocator', 'uvcc_random', 'uvcc_config', 'uvcc_link_config', 'uvcc_transformer_config',
        'uvcc_finetune_config', 'uvcc_mlp_config', 'uvcc_model_config', 'uvcc_peer_info', 'uvcc_net_config', 'uvcc_net_session', 'uvcc_net_link',
        'uvcc_net_peer', 'uvcc_net_refusal', 'uvcc_tls_config', 'uvcc_store_config'}
# Pointers that may be NULL, as their headers say: function -> parameters.
OPTIONAL = {
    'uvcc_bundle_decode': {'fault'},
    'uvcc_bundle_check': {'fault'},
    'uvcc_job_root_decode': {'fault'},
    'uvcc_proof_check': {'fault'},
    'uvcc_proof_decode': {'fault'},
    'uvcc_finetune_check': {'message'},
    'uvcc_finetune_program': {'message'},
    'uvcc_frame_decode_header': {'why'},
    'uvcc_key_make': {'why'},
    'uvcc_key_read': {'why'},
    'uvcc_key_write': {'why'},
    'uvcc_loopback_set_all_faults': {'f'},
    'uvcc_mlp_program': {'message'},
    'uvcc_model_check': {'message'},
    'uvcc_model_cost': {'message'},
    'uvcc_model_emit': {'message'},
    'uvcc_model_emit_layer': {'message'},
    'uvcc_model_forward': {'message'},
    'uvcc_model_forward_shared': {'message'},
    'uvcc_model_forward_streamed': {'message'},
    'uvcc_model_forward_streamed_shared': {'message'},
    'uvcc_model_inputs': {'padding'},
    'uvcc_model_program': {'message'},
    'uvcc_model_reference': {'padding', 'message'},
    'uvcc_model_weights': {'message'},
    'uvcc_nonlinear_build': {'options'},
    'uvcc_nonlinear_output': {'options'},
    'uvcc_mpi_on_note': {'reader'},
    'uvcc_mpi_why': {'rank', 'code', 'why'},
    'uvcc_nccl_why': {'rank', 'code', 'why'},
    'uvcc_net_backend_is_here': {'why'},
    'uvcc_net_listen': {'tls', 'port'},
    'uvcc_policy_check': {'message'},
    'uvcc_policy_program': {'message'},
    'uvcc_program_finish': {'message'},
    'uvcc_program_rounds': {'counted'},
    'uvcc_service_answer': {'lo', 'hi'},
    'uvcc_reference_step': {'message'},
    'uvcc_store_open': {'why'},
    'uvcc_transformer_check': {'message'},
    'uvcc_transformer_program': {'message'},
}
# Not asked: zeros are no decoded bundle, and nothing else is missing.
NOT_ZERO = {('uvcc_bundle_check', 'fault')}


def declarations(paths):
    for path in paths:
        text = open(path, encoding='utf-8').read()
        text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
        text = re.sub(r'^\s*#.*$', '', text, flags=re.M)
        for m in re.finditer(r'UVCC_API\s+(.*?);', text, flags=re.S):
            yield ' '.join(m.group(1).replace('UVCC_MUST_USE', '').split())


def argument(kind, name):
    """Something good for a parameter."""
    if '*' not in kind and '[' not in kind:
        many = re.search(r'len|cap$|count$|^n$|elems|bytes', name) and kind != 'bool'
        return '(%s)%d' % (kind, 1 if many else 0) if not kind.startswith('struct ') else None
    target = re.sub(r'\bconst\b', ' ', kind.split('*')[0].split('[')[0]).split()[0]
    if kind.count('*') == 1 and '[' not in kind and target in OPAQUE:
        return 'a_%s(v)' % target
    if kind.count('*') == 1 and '[' not in kind and target in MADE:
        return 'a_%s()' % target
    return '(void *)zeroed()'


def parameter(text):
    m = re.match(r'(.*?)(\w+)((?:\[[^\]]*\])*)$', text)
    kind = m.group(1).strip() + ('[]' if m.group(3) else '')
    return kind, m.group(2)


def main():
    for text in declarations(sys.argv[1:]):
        m = re.match(r'(.*?)(\w+)\((.*)\)$', text)
        returns, name, params = m.group(1).strip(), m.group(2), m.group(3)
        if params.strip() == 'void':
            continue
        given = [parameter(p.strip()) for p in params.split(',')]
        pointers = [i for i, (k, _) in enumerate(given) if '*' in k or '[' in k]
        optional = OPTIONAL.get(name, ())
        for nulls in [[i] for i in pointers] + ([pointers] if len(pointers) > 1 else []):
            if (name, given[nulls[0]][1]) in NOT_ZERO:
                continue
            called = ', '.join('NULL' if i in nulls else argument(k, n)
                               for i, (k, n) in enumerate(given))
            what = '+'.join(given[i][1] for i in nulls)
            must = returns == 'int' and any(given[i][1] not in optional for i in nulls)
            if returns == 'int':
                body = 'return %s(%s);' % (name, called)
            else:
                body = '(void)%s(%s); return 0;' % (name, called)
            print('NULLS("%s", "%s", %d, { %s })' % (name, what, must, body))


if __name__ == '__main__':
    main()
