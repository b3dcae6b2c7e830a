#!/bin/bash
#SBATCH --job-name=consensus
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

# SIGUSR1 goes to the ranks themselves, two minutes before the time is over.
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
srun python script.py torch
code=$?
if [ $code -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
