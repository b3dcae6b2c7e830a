#!/bin/bash
#SBATCH --job-name=consensus
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

# mpiexec takes the nodes from SLURM and passes SIGUSR1 on to the ranks; this shell (B:) passes it on to
# mpiexec. With Open MPI's option --with-ft ulfm the ranks name one that died, and write the history; MPICH
# has no such option.
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
mpiexec --with-ft ulfm -n "$SLURM_NTASKS" python -m mpi4py script.py mpi &
ranks=$!
told=
trap 'told=yes; kill -USR1 $ranks' USR1
wait $ranks
code=$?
if [ -n "$told" ]; then # the signal ended this wait, not the ranks
    wait $ranks
    code=$?
fi
if [ $code -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
