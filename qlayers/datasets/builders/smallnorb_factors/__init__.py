"""Builder of `smallnorb_factors`."""
