cd /tmp && rm -rf /tmp/ou && mkdir -m 777 /tmp/ou; cd /tmp/ou
export HOME=/tmp/ou
setpriv --reuid 65534 --regid 65534 --clear-groups env PATH=/usr/local/bin:/usr/bin:/bin MASTER_ADDR=127.0.0.1 RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567 NCCL_DEBUG=INFO python3 -c "
import time,sys
print('step 1 key 0123456789abcdef0123456789abcdef01234567', flush=True)
time.sleep(300)" > r0.log 2>&1 & R=$!
sleep 1
time setpriv --reuid 65534 --regid 65534 --clear-groups env PATH=/usr/local/bin:/usr/bin:/bin python3 -m ncclforensics.collect -o out --again 3 2>err; cat err
kill $R; ls -laR out | head -60; cat out/*/processes/*.env; cat out/*/logs/*; grep -rl 0123456789abcdef0123 out; python -m ncclforensics analyze out --no-cache | head -40
