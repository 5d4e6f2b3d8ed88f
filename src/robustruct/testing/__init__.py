"""For authors of plug-ins: slow, obvious oracles and generators of hard cases."""
