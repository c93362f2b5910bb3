"""``python -m triack.metrics``: prints the dashboard for Grafana."""

import sys
from importlib.resources import files

if __name__ == "__main__":
    sys.stdout.write((files("triack.metrics") / "grafana.json").read_text(encoding="utf-8"))
