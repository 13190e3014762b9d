#!/usr/bin/env python3
"""torchrun --nproc-per-node WORKERS --max-restarts 1000 torchrun.py --config CONFIG [OPTION...]

One party under torchrun. Its processes do not know each other by MPI, so the first one starts them by mpirun, and the
others have nothing to do; with one worker there is no MPI. An exit status of 75 (start again) is a failure to torchrun,
which then starts all anew. One node: of several, use mpirun or Slurm.
"""
import os
import sys

uvcc = os.environ.get('UVCC', 'uvcc')
rank, workers = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
if workers != int(os.environ.get('LOCAL_WORLD_SIZE', workers)):
    sys.exit('torchrun.py: one node only; for several use mpirun.sh or slurm.sbatch')
if rank != 0:
    sys.exit(0)
command = [uvcc, 'party', *sys.argv[1:]]
if workers > 1:
    command = ['mpirun', '-n', str(workers), 'env', '-u', 'RANK', *command]
os.execvp(command[0], command)
