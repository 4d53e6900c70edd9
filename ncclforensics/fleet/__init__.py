"""Asks all nodes of a job by the site's own tools: srun, kubectl, ssh or Ray.

`targets.py` lists the nodes, `script.py` packs what runs there, `runner.py` asks many
at once, `shares.py` takes what comes back into one folder, `manifest.py` writes down
who answered.
"""
