"""A real Prometheus beside a real Ray: what dashboards show of it, and what reading costs."""
