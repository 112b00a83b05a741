"""Replicas of tools/bench/elastic.py under torchft: gpt_torch.py's GPT, its gradients averaged by torchft over gloo.

Without --replica: the lighthouse, as torchft's README starts it, and four of these processes, each a replica group of
one. When a replica dies the others go on without it from the step that did not commit; nothing is saved. Replica 0
appends a line per committed step, {"step": n, "t": seconds}, to --metrics. Sizes are those of gpt_torch.py. torchft's
own DistributedDataParallel (0.2.0 with PyTorch 2.15) ends a survivor with an assertion when a peer dies in backward, so
this is its other one, which averages each gradient by itself.
"""

import json
import os
import subprocess
import sys
import time
from datetime import timedelta

import torch
from gpt_torch import GPT, Update, arguments

LIGHTHOUSE, REPLICAS = "29917", 4


def launch():
    lighthouse = [os.path.join(os.path.dirname(sys.executable), "torchft_lighthouse"), "--bind", "[::]:" + LIGHTHOUSE,
                  "--min_replicas", "1",
                  "--quorum_tick_ms", "100", "--join_timeout_ms", "10000"]
    processes = [subprocess.Popen(lighthouse)]
    for replica in range(REPLICAS):
        env = dict(os.environ, RANK=str(replica))                # which elastic.py looks for
        processes.append(subprocess.Popen([sys.executable] + sys.argv + ["--replica", str(replica)], env=env))
    try:
        for process in processes[1:]:
            process.wait()
    finally:
        for process in processes:
            process.kill()


def train(o):
    from torchft import Manager, Optimizer, ProcessGroupGloo
    from torchft.ddp import PureDistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(1)
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    model = GPT(o)
    update = Update(model.parameters(), "cpu")

    def load(state):
        model.load_state_dict(state["model"])
        update.optimizer.load_state_dict(state["optimizer"])

    manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=30)), min_replica_size=1, load_state_dict=load,
                      rank=0, world_size=1,
                      state_dict=lambda: {"model": model.state_dict(), "optimizer": update.optimizer.state_dict()},
                      replica_id="replica%d_" % o.replica,
                      store_addr="localhost", store_port=store.port, lighthouse_addr="http://localhost:" + LIGHTHOUSE,
                      timeout=timedelta(seconds=30))
    ddp = PureDistributedDataParallel(manager, model)
    optimizer = Optimizer(manager, update.optimizer)
    while manager.current_step() < o.steps:
        step = manager.current_step()
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(o.vocab, (int(o.batch), o.seq + 1), generator=generator).chunk(REPLICAS)[o.replica]
        optimizer.zero_grad()                                    # begins the quorum
        ddp(tokens[:, :-1], tokens[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()                                         # if all agree
        if o.replica == 0 and manager.current_step() > step:
            with open(o.metrics, "a") as file:
                file.write(json.dumps({"step": step + 1, "t": time.time()}) + "\n")


def main():
    parser = arguments()
    parser.add_argument("--metrics")
    parser.add_argument("--replica", type=int)
    o = parser.parse_args()
    if o.replica is None:
        launch()
    else:
        train(o)


main()
