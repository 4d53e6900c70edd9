"""How processes ended, who reported it, and of which rank nothing was collected."""
