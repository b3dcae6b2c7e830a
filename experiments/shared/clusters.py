"""The fastest method on each cluster: maps over latency and bandwidth, one for each number of agents."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.ndimage import distance_transform_edt

from consensus.costs import Cluster, Load
from experiments.shared.curves import fitted_legend, panels
from experiments.shared.tables import Table

LATENCIES, BANDWIDTHS = np.logspace(-6, 0, 49), np.logspace(5, 11, 49)
SPEED, ADDS = 2e10, 5e8  # operations, and numbers added up, a second and machine: about what one core does
SPREAD = 0.2  # of machines
LETTER = 1.4  # cells of a map that a letter is wide


def first(loads):
    """Return the index of the fastest of ``loads``, each of one entry: integers (bandwidths, latencies)."""
    seconds = []
    for exchanges, size, *work in loads:
        computing = Cluster(0.0, np.inf, SPEED, SPREAD, ADDS).seconds(Load(exchanges, size, *work))[0]
        seconds.append(LATENCIES * exchanges[0] + (size[0] / BANDWIDTHS)[:, None] + computing)
    return np.argmin(seconds, axis=0)


def figure(maps, names):
    """A panel for each of ``maps``, ``{agents: indices of names}``; each region has its name where there is room."""
    canvas, axes = panels(len(maps), columns=3, size=(2.7, 2.5))
    seen = np.unique(np.concatenate([winner.ravel() for winner in maps.values()]))
    colours = ListedColormap(plt.get_cmap("viridis")(np.linspace(0.25, 1, len(seen))))  # lighter and lighter, in grey print too
    for ax, (agents, winner) in zip(axes, maps.items(), strict=True):
        shown = np.searchsorted(seen, winner)
        ax.pcolormesh(LATENCIES, BANDWIDTHS, shown, cmap=colours, vmin=-0.5, vmax=len(seen) - 0.5, rasterized=True)
        ax.set(xscale="log", yscale="log", xlabel="latency of a message [s]", title=f"{agents:,} agents")
        for index in np.unique(winner):
            name = names[index].replace(" ", "\n", 1)
            depth = distance_transform_edt(np.pad(winner == index, 1), sampling=(2, 1))[1:-1, 1:-1]  # names are wide
            row, column = np.unravel_index(depth.argmax(), depth.shape)
            if depth.max() >= LETTER * max(map(len, name.split("\n"))) / 2:
                place = {"ha": "center", "va": "center", "fontsize": 6.5}
                box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
                ax.text(LATENCIES[column], BANDWIDTHS[row], name, bbox=box, **place)
    axes[0].set_ylabel("bandwidth of a link [bytes/s]")
    patches = [plt.Rectangle((0, 0), 1, 1, color=colours(place)) for place in range(len(seen))]
    fitted_legend(canvas, patches, [names[index] for index in seen], columns=4)
    return canvas


def table(maps, names):
    """Each method's share of each map."""
    rows = Table({"agents": ",", "first": "", "part of the map": ".0%"})
    for agents, winner in maps.items():
        counts = np.bincount(winner.ravel(), minlength=len(names))
        for index in np.argsort(-counts, kind="stable"):
            if counts[index]:
                rows.add(agents, names[index], counts[index] / winner.size)
    return rows
