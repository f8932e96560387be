"""Pretraining, as one picture.

    shards, tokenizer -> loader -> batch -> model under DeepSpeed -> losses -> sink
                                               |
                              checkpoint <- state (weights, position, counters)

`deepspeed [launcher flags] launch/pretrain.py --config FILE [key=value ...]` trains, or goes on.
"""

import logging
import sys

from mlmdist import dist, logs
from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.train import command, folder, init_from, plan, precision
from mlmdist.train.done import is_done
from mlmdist.train.meeting import meet
from mlmdist.train.phases import open_phases
from mlmdist.train.stop import Stop

log = logging.getLogger(__name__)


def main() -> None:
    """Do what the command line says."""
    options = command.parse(sys.argv[1:])
    config = precision.settled(load(Pretrain, options.config, options.overrides))
    config = init_from.settled(config)
    here = dist.place()
    logs.set_up(rank=here.rank)
    folder.check_config(config, options.accept)
    if options.dry_run:
        num_ranks = command.num_ranks(options, here.world_size)
        speed = command.speed(options, config.train.precision)
        planned = plan.text(open_phases(config), config, num_ranks, speed)
        if here.rank == 0:
            command.show(planned)
    else:
        pretrain(config, here, options)


def pretrain(config: Pretrain, here: dist.Place, options: command.Options) -> None:
    """Train with the other ranks, if the run is not done; torch and DeepSpeed come in here."""
    from mlmdist.train.check import check
    from mlmdist.train.loop import fit
    from mlmdist.train.opening import opened

    with Stop(here) as stop, meet(config, here) as watchdog:
        config = precision.agreed(config)
        phases = open_phases(config)
        if dist.broadcast_decision(here.rank == 0 and is_done(config, phases)):
            log.info("%s is done: nothing to do", config.run)
            return
        work, trial = (check, True) if options.check else (fit, False)
        with opened(config, here, phases, watchdog, stop, options.accept, trial=trial) as run:
            work(run)


if __name__ == "__main__":
    command.end(command.run_rank(main))
