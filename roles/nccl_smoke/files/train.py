# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A training example: a small network on synthetic data, DistributedDataParallel, started by torchrun.

Says how long a step takes, and what share of it is communication that computing does not hide: the same step is also
timed without the exchange of gradients (no_sync). GPU utilisation is what the launcher samples meanwhile.

    torchrun --nnodes 2 --node-rank 0 --nproc-per-node 8 --master-addr 198.51.100.1 train.py --backend nccl
"""

from __future__ import annotations

import argparse
import time

from smoke_worker import connect, say, slowest


def network(torch, width: int, depth: int):
    """Fully connected layers: depth × width² parameters."""
    layers = [layer for _run in range(depth) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 16))


def train_step(model, optimiser, torch, samples, labels):
    """One step; the loss."""
    optimiser.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(samples), labels)
    loss.backward()
    optimiser.step()
    return loss.detach()


def timed_steps(count: int, step, synchronise) -> float:
    """Seconds for one step."""
    synchronise()
    start = time.perf_counter()
    for _run in range(count):
        step()
    synchronise()
    return (time.perf_counter() - start) / count


def main() -> None:
    """Train, and say what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["nccl", "gloo"], required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=512, help="samples a rank")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--limit", type=float, default=300.0)
    options = parser.parse_args()
    torch, dist, device = connect(options.backend, options.limit)
    synchronise = torch.cuda.synchronize if options.backend == "nccl" else (lambda: None)

    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(network(torch, options.width, options.depth).to(device))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = torch.randn(options.batch, options.width, device=device)
    labels = torch.randint(0, 16, (options.batch,), device=device)

    def step() -> None:
        train_step(model, optimiser, torch, samples, labels)

    def step_alone() -> None:
        with model.no_sync():
            step()

    first = float(train_step(model, optimiser, torch, samples, labels))
    timed_steps(3, step, synchronise)
    together = slowest(torch, dist, device, timed_steps(options.steps, step, synchronise))
    last = float(train_step(model, optimiser, torch, samples, labels))
    timed_steps(1, step_alone, synchronise)
    alone = slowest(torch, dist, device, timed_steps(max(1, options.steps // 4), step_alone, synchronise))
    if dist.get_rank() == 0:
        say(
            "train",
            steps=options.steps,
            step_ms=round(together * 1e3, 3),
            alone_ms=round(alone * 1e3, 3),
            communication=round(max(0.0, 1 - alone / together), 4),
            samples_per_s=round(options.batch * dist.get_world_size() / together, 1),
            gradient_bytes=sum(parameter.numel() for parameter in model.parameters()) * 4,
            loss_first=round(first, 4),
            loss_last=round(last, 4),
        )
        say("end")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
