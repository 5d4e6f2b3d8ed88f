"""Files: formats of samples, feature templates, costs; models as safetensors."""
