#!/bin/bash
# A Slurm of its own on the loopback captions a directory in an array of four, one task of which is requeued while it runs.
#
# usage: slurm.sh SPECREEL DIR FILE OPTION...
#   SPECREEL   the program
#   DIR        an empty directory for everything that Slurm writes; out/1 to out/4 are what the tasks print
#   FILE       written by the second task, which is requeued as soon as the file has contents
#   OPTION...  the array runs `SPECREEL caption OPTION... --shard auto` in the current directory
#
# Needs slurmctld, slurmd and munged, and root: Slurm's daemons start tasks for users.
set -euo pipefail

specreel=$1 dir=$2 file=$3
shift 3
export SLURM_CONF=$dir/slurm.conf
host=$(hostname -s)

# Two free ports.
ports=$(python3 -c 'import socket
s = [socket.socket() for _ in range(2)]
[x.bind(("127.0.0.1", 0)) for x in s]
print(*[x.getsockname()[1] for x in s])')
read -r controller daemon <<<"$ports"

mkdir -p "$dir"/{munge,state,spool,out}
chmod 755 "$dir" "$dir/munge"
mungekey --create --keyfile "$dir/munge/key"
cat >"$SLURM_CONF" <<END
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmdPort=$daemon
SlurmUser=root
SlurmdUser=root
# A requeued task starts once the credential of the killed one has expired.
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,batch_sched_delay=0
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END

started=()
# shellcheck disable=SC2317 # called by trap
stop() {
    scancel --full --user="$(id -un)" 2>/dev/null || true
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
}
trap stop EXIT

munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" &
started+=($!)
for _ in {1..100}; do
    [ -S "$dir/munge/socket" ] && break
    sleep 0.1
done
slurmctld -D -f "$SLURM_CONF" >"$dir/out/slurmctld" 2>&1 &
started+=($!)
slurmd -D -f "$SLURM_CONF" >"$dir/out/slurmd" 2>&1 &
started+=($!)
for _ in {1..100}; do
    sinfo --noheader --format=%T 2>/dev/null | grep -q idle && break
    sleep 0.2
done

cat >"$dir/array.sh" <<'END'
#!/bin/bash
#SBATCH --array=1-4 --requeue
exec "$SPECREEL" caption "$@" --shard auto
END
job=$(SPECREEL=$specreel sbatch --parsable --export=ALL --open-mode=append --output="$dir/out/%a" "$dir/array.sh" "$@")

# Once the second task has begun to write, it is killed and queued again.
for _ in {1..600}; do
    [ -s "$file" ] && break
    sleep 0.05
done
scontrol requeue "${job}_2"
echo "requeued: $(squeue --noheader --array --jobs="$job" --format='%K %T %r' | grep '^2 ' || true)"

for _ in {1..1200}; do
    left=$(squeue --noheader --jobs="$job" --format=%T 2>/dev/null | wc -l)
    [ "$left" = 0 ] && break
    sleep 0.2
done
[ "$left" = 0 ] || { echo "the array has not ended" && squeue && exit 1; }
restarts=$(scontrol show job "${job}_2" | grep -o 'Restarts=[0-9]*')
echo "task 2: $restarts"
scontrol show job "$job" | grep -o 'JobState=[A-Z]*' | sort | uniq -c
[ "$restarts" = "Restarts=1" ]
