#!/bin/bash
#SBATCH --job-name=seeds
#SBATCH --array=0-9%4
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

# Ten runs, at most four at a time; script.py takes its seed and its files' names from SLURM_ARRAY_TASK_ID.
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
srun python script.py torch
code=$?
if [ $code -eq 75 ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" # this run alone
fi
exit $code
