"""Bytes to a stationarity by compressed messages, over those of gradient tracking."""

from tqdm import tqdm

from consensus.engines import Stacked
from experiments import compression
from experiments.shared import tuning
from experiments.shared.cases import case
from experiments.shared.results import training

BAR = 0.35


def compare(network, rounds=2000):
    """Bytes to a hundredth of the stationarity at the start, over those of tracking in its better order: each at its best."""
    boston, level = case("boston", network.agents, 0, scheme="sorted"), compression.LAST
    names = (*compression.PLAIN, "BEER, top 10%", "CGT, top 10%")
    families = {(name, family.label): family for name in names for family in compression.methods(rounds)[name]}

    def run(points):
        found = {}
        for key, point in tqdm(points, "boston", unit="run", leave=False):
            amount = {
                "rounds": rounds * (1 if key[0] in compression.PLAIN else compression.MORE),
                "records": compression.RECORDS,
            }
            solver = families[key].make(*point)
            found[key, point] = training({}, boston, network, solver, **amount, seed=0).work(Stacked())
        return found

    merits = compression.merits
    found = tuning.tuned(run, families, merits)
    least = {
        name: merits(found, key, found[key][point])[level][0]
        for name in names
        for key, point in [tuning.chosen(found, (name,), level, merits)]
    }
    plain = min(least[name] for name in compression.PLAIN)
    parts = ", ".join(f"{name}: {least[name] / plain:.3f}" for name in names if name not in compression.PLAIN)
    print(f"Bytes to {level} of the stationarity at the start on boston, of tracking's: {parts} (at most {BAR})", flush=True)
