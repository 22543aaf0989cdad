"""Runs the page's own runtime outside a page, where Node.js is installed."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import experiments.reporting

RUNTIME = Path(experiments.reporting.__file__).parent / "page_assets" / "runtime.js"
_SCRIPT = """
const Runtime = require(process.argv[1]);
const job = JSON.parse(require("fs").readFileSync(0, "utf8"));
Runtime.load(job.model).then((model) => {
  const read = (row) => {
    const { codes, values } = model.encode(Float32Array.from(row));
    return { codes, values: [...values] };
  };
  const answer = {
    encoded: job.images.map(read),
    decoded: job.latents.map((row) => [...model.decode(Float32Array.from(row))]),
  };
  process.stdout.write(JSON.stringify(answer));
});
"""


def run(model, images=(), latents=()):
    """Codes and latents of images, and decoded latents, by the page's runtime."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js (Debian: nodejs)")
    job = {
        "model": model,
        "images": [np.ravel(image).tolist() for image in images],
        "latents": [np.ravel(z).tolist() for z in latents],
    }
    done = subprocess.run(
        [node, "-e", _SCRIPT, str(RUNTIME)],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    shape = model["image"]
    codes = [entry["codes"] for entry in answer["encoded"]]
    values = np.array([entry["values"] for entry in answer["encoded"]])
    return codes, values, np.reshape(answer["decoded"], (-1, *shape))
