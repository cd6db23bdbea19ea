"""What all layers share: names, progress, files, derivatives as multi-indices."""
