"""A worker of tools/bench/elastic.py under torchrun: gpt_torch.py's GPT by DDP over gloo, which saves every few steps
and goes on from there.

Rank 0 appends a line per finished step, {"step": n, "t": seconds}, to --metrics. Sizes are those of gpt_torch.py.
"""

import json
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gpt_torch import GPT, Update, arguments


def main():
    parser = arguments()
    parser.add_argument("--metrics")
    parser.add_argument("--save")
    parser.add_argument("--save-every", type=int, default=10)
    o = parser.parse_args()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = DistributedDataParallel(GPT(o), gradient_as_bucket_view=True)
    update = Update(model.parameters(), "cpu")
    first = 0
    if os.path.exists(o.save):
        saved = torch.load(o.save, weights_only=True)
        model.module.load_state_dict(saved["model"])
        update.optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    for step in range(first, o.steps):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(o.vocab, (int(o.batch), o.seq + 1), generator=generator).chunk(ranks)[rank]
        model(tokens[:, :-1], tokens[:, 1:]).backward()
        update.step()
        if rank == 0:
            with open(o.metrics, "a") as file:
                file.write(json.dumps({"step": step + 1, "t": time.time()}) + "\n")
            if (step + 1) % o.save_every == 0:
                torch.save({"model": model.module.state_dict(), "optimizer": update.optimizer.state_dict(),
                            "step": step + 1}, o.save + ".new")
                os.replace(o.save + ".new", o.save)
    dist.destroy_process_group()


main()
