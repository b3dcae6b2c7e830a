#!/bin/bash
#SBATCH --job-name=consensus
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

# One torchrun on each node, which starts as many ranks as the task has cores. torchrun ends with 1
# whatever its ranks end with, so this shell is told (B:) that the time is nearly over, remembers it, and
# passes the signal on.
export OMP_NUM_THREADS=1
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node "$SLURM_CPUS_PER_TASK" \
    --rdzv-backend c10d --rdzv-endpoint "$first:$((20000 + SLURM_JOB_ID % 10000))" --rdzv-id "$SLURM_JOB_ID" \
    --signals-to-handle SIGTERM,SIGINT,SIGUSR1 script.py torch &
steps=$!
told=
trap 'told=yes; kill -USR1 $steps' USR1
wait $steps
code=$?
if [ -n "$told" ]; then # the signal ended the first wait, not the steps
    wait $steps
    code=$?
    if [ $code -ne 0 ]; then
        scontrol requeue "$SLURM_JOB_ID"
    fi
fi
exit $code
