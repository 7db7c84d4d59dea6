"""Train the sentiment model: a teacher on labels, then the network that ships on what the teacher says.

python weights/train/train.py --data DIR --teacher DIR --out DIR [--device cuda] [--stages data,augment]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from recipe import load_recipe
from run import Run
from stages import STAGES


def main() -> None:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="the folder with the training data")
    add("--teacher", type=Path, required=True, help="the folder with the pretrained teacher")
    add("--out", type=Path, required=True, help="where results go; finished parts there are not redone")
    add("--name", default="student", help="the student's folder in --out")
    add("--config", type=Path, default=here / "sentiment.yaml", help="the recipe")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help='change it: "distil.epochs=2"')
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--stages", default=",".join(STAGES), help=f"some of {','.join(STAGES)}")
    add("--member", type=int, help="the only teacher that this call trains and lets label, from 0")
    add("--limit-seconds", type=float, default=math.inf, help="for each training, and for labelling")
    options = parser.parse_args()
    recipe, device = load_recipe(options.config, options.set), torch.device(options.device)
    chosen = options.stages.split(",")
    if unknown := set(chosen) - set(STAGES):
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    every = range(recipe.teacher.count)
    if options.member is not None and options.member not in every:
        parser.error(f"no teacher {options.member}; there are 0 to {every[-1]}")
    members = tuple(every) if options.member is None else (options.member,)
    folders = (options.data, options.out, options.name, options.teacher)
    run = Run(recipe, *folders, device, options.limit_seconds, members)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    place = run.student if {"distil", "export"} & set(chosen) else run.out
    run.note(place, "device", name=name, torch=torch.__version__)
    for stage in chosen:
        STAGES[stage](run)


if __name__ == "__main__":
    main()
