"""What the experiments share: their harness, cases, results, tables and curves."""
