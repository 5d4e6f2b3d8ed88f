"""Files: models as safetensors."""
