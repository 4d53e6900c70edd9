"""How processes ended, who reported it, and which ranks left no output at all."""
