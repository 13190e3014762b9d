#!/bin/sh
# mpirun.sh WORKERS CONFIG [OPTION...]: one party of a job, a process for each of its workers, by Open MPI. WORKERS is
# replicas x stages x tensor_ranks of the job. Processes that end with 75 want to be started again: a peer has begun
# anew; where that comes again and again, pauses before it grow. Anything else is the end: 0 done, 137 if a worker was
# killed (run this again, or let systemd do it).
#
#     UVCC=/usr/bin/uvcc MPIRUN='mpirun --hostfile hosts' examples/launch/mpirun.sh 8 party-0.json
set -u
workers=${1:?how many workers the party has}
config=${2:?the configuration of the party}
shift 2
pause=0
while :; do
    began=$(date +%s)
    # What a batch script has of Slurm is of the script, not of a worker: MPI's rank counts.
    # shellcheck disable=SC2086 # MPIRUN is words
    ${MPIRUN:-mpirun} -n "$workers" env -u SLURM_PROCID -u RANK "${UVCC:-uvcc}" party --config "$config" "$@"
    status=$?
    [ $status -eq 75 ] || exit $status
    # Who ran for a minute begins with the first pause again.
    [ $(($(date +%s) - began)) -lt 60 ] || pause=0
    sleep "$pause"
    pause=$((2 * pause + 1))
    [ $pause -le 10 ] || pause=10
done
