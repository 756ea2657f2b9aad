"""What every room uses: errors, whole files, progress, the machine. It imports nothing of the rest."""
