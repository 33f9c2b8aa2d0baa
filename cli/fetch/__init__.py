"""`rwi report fetch`: what a run kept in storage, brought back."""
