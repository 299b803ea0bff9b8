#!/bin/bash
# The NCCL smoke test on a machine with one GPU and no RDMA, as two hosts: role, launcher, NCCL and its log are real.
#
#   OUT=FOLDER bash tests/device/h200_smoke.sh
#
# Needs: python3 with PyTorch for CUDA (another one by PYTHON), one free GPU, and ansible-core that this python3 can
# import (PYTHONPATH may name the folder of its wheels). No network. Everything that is shown is kept in $OUT.
# Two ranks on one GPU work when each has its own NCCL_HOSTID, and NCCL may use neither P2P nor shared memory.
set -u
cd "$(dirname "$0")/../.." || exit 2
OUT=${OUT:?a folder for the results}
PYTHON=${PYTHON:-$(command -v python3)}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
failed=0

mkdir -p "$WORK/collections/ansible_collections/lossless" "$WORK/bin"
ln -s "$PWD" "$WORK/collections/ansible_collections/lossless/roce"
export ANSIBLE_COLLECTIONS_PATH="$WORK/collections" ANSIBLE_NOCOLOR=1 ANSIBLE_LOCALHOST_WARNING=0
: >"$WORK/ansible.cfg"
export ANSIBLE_CONFIG="$WORK/ansible.cfg" ANSIBLE_HOME="$WORK/ansible" LC_ALL=C.UTF-8

if ! command -v ip >/dev/null; then
    # An image without iproute2: this stand-in knows the loopback, over which both hosts talk here.
    echo "no iproute2 here: a stand-in answers for lo" | tee "$OUT/stand-in.txt"
    cat >"$WORK/bin/ip" <<'STANDIN'
#!/bin/sh
case "$*" in
*address*) echo '[{"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]}]' ;;
*route*) echo 'local 127.0.0.1 dev lo src 127.0.0.1 uid 0' ;;
*) exit 1 ;;
esac
STANDIN
    chmod +x "$WORK/bin/ip"
    export PATH="$WORK/bin:$PATH"
fi

cat >"$WORK/hosts.yml" <<INVENTORY
all:
  vars:
    ansible_connection: local
    ansible_python_interpreter: "$PYTHON"
    nccl_smoke_interface: lo
    nccl_smoke_address: 127.0.0.1
    nccl_smoke_ranks: "1"
    nccl_smoke_python: "$PYTHON"
    nccl_smoke_poll: 1
    nccl_smoke_time_limit: 100
    nccl_smoke_start_limit: 60
    nccl_smoke_end: ${END:-268435456}
    nccl_smoke_gpu_target: 80
    nccl_smoke_folder: "$WORK/worker"
    nccl_smoke_environment: {NCCL_HOSTID: "{{ inventory_hostname }}", NCCL_P2P_DISABLE: "1", NCCL_SHM_DISABLE: "1"}
  children:
    roce_nodes:
      hosts: {host-a: , host-b: }
INVENTORY

# Each line with the time at which it came.
stamped() {
    "$PYTHON" -uc 'import sys, time
for line in sys.stdin:
    print(f"{time.time():.2f} {line}", end="")'
}

# run NAME WANTED_STATUS PATTERN WORDS...: the playbook; its report must have a cause that holds the pattern.
run() {
    local name=$1 status=$2 pattern=$3
    shift 3
    echo "== $name"
    mkdir -p "$WORK/log-$name"
    local start=$SECONDS
    timeout 240 "$PYTHON" -m ansible playbook -i "$WORK/hosts.yml" playbooks/nccl.yml "$@" \
        -e roce_report_path="$WORK/report-$name" -e nccl_smoke_log_folder="$WORK/log-$name" 2>&1 | stamped >"$WORK/$name.txt"
    local rc=${PIPESTATUS[0]}
    echo "$name: status $rc in $((SECONDS - start)) s"
    tail -n 30 "$WORK/$name.txt"
    [ $((rc != 0)) -eq "$status" ] || { echo "WRONG: $name ended with $rc"; failed=1; }
    grep -q "$pattern" "$WORK/report-$name/report.json" || { echo "WRONG: $name does not say: $pattern"; failed=1; }
    if pgrep -f "$WORK/worker"; then echo "WRONG: $name left processes behind"; failed=1; fi
    for host in host-a host-b; do cp "$WORK/log-$name/nccl-$host-main.log" "$WORK/$name-$host.log" 2>/dev/null; done
    cp "$WORK/report-$name/report.json" "$WORK/$name.json" 2>/dev/null
}

# The same two ranks by hand: what PyTorch and NCCL take without us.
bare() {
    local rank
    for rank in 0 1; do
        env NCCL_HOSTID="bare-$rank" NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_SOCKET_IFNAME==lo NCCL_DEBUG=INFO \
            OMP_NUM_THREADS=1 timeout 200 "$PYTHON" -m torch.distributed.run --nnodes 2 --node-rank $rank \
            --nproc-per-node 1 --rdzv-backend static --master-addr 127.0.0.1 --master-port 29600 \
            roles/nccl_smoke/files/smoke_worker.py --backend nccl --begin 1024 --end "${END:-268435456}" --factor 4 \
            >"$WORK/bare-$rank.txt" 2>&1 &
    done
    wait
}

"$PYTHON" -c 'import torch; print("torch", torch.__version__, "NCCL", torch.cuda.nccl.version(),
    torch.cuda.get_device_name())' | tee "$OUT/versions.txt"
bare # once for nothing: the first import reads from a cold disk
begin=$(date +%s.%N)
bare
echo "bare torchrun: $(echo "$(date +%s.%N) $begin" | awk '{print $1 - $2}') s" | tee "$OUT/times.txt"

run fallback 1 'fell back to Socket: no RDMA device' -e '{"nccl_smoke_force_ib": false, "nccl_smoke_compare": false}'
run forced 1 'so it did not fall back to Socket: no RDMA device' -e nccl_smoke_compare=false
run accepted 0 'over TCP sockets, which was declared acceptable' \
    -e '{"nccl_smoke_accept_socket": true, "nccl_smoke_compare": false,
         "nccl_smoke_operations": ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]}'
run timed 0 'over TCP sockets, which was declared acceptable' \
    -e '{"nccl_smoke_accept_socket": true, "nccl_smoke_compare": false}'
run training 0 'DistributedDataParallel' -e '{"nccl_smoke_accept_socket": true, "nccl_smoke_compare": true,
    "nccl_smoke_end": 1048576, "nccl_smoke_training_steps": 50, "nccl_smoke_gpu_target": 0}'

# Seconds from the task that starts the test to its verdict, and of torchrun in it, against the bare one.
"$PYTHON" - "$WORK/timed.txt" "$WORK/timed.json" <<'SUMMARY' | tee -a "$OUT/times.txt"
import json, re, sys
text = open(sys.argv[1]).read()
start, end = (re.search(rf"^([0-9.]+) TASK .*: {task}\]", text, re.MULTILINE)
              for task in ("Start the smoke test", "Keep the verdicts"))
print("role, from start to verdict:", round(float(end[1]) - float(start[1]), 2), "s")
run = json.load(open(sys.argv[2]))["runs"]["nccl"]
for finding in run["findings"]:
    if finding["check"] == "nccl_smoke" and isinstance(finding["observed"], dict) and "rows" in finding["observed"]:
        print(json.dumps({key: finding["observed"][key] for key in ("took_s", "start", "rows") if key in finding["observed"]}))
SUMMARY

# At most eight files travel back.
(cd "$WORK" && tar czf "$OUT/all.tar.gz" -- *.txt *.json)
cp "$WORK"/fallback-host-a.log "$WORK"/fallback-host-b.log "$WORK"/accepted-host-a.log "$OUT"/ 2>/dev/null
[ "$failed" -eq 0 ] && echo "all as expected"
exit "$failed"
