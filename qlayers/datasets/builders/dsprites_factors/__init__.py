"""Builder of `dsprites_factors`."""
